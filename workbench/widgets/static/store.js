// The world as the page knows it: kernel messages in → a new world, and what changed. Pure: time is
// passed in, nothing is drawn, nothing is sent.

/** How long, in ms, what is new or has vanished stays marked. */
export const MARK_MS = 1500;
/** How much of the timeline is kept, in seconds. */
export const TIMELINE_SECONDS = 120;

const ENVELOPE = new Set(["kind", "seq", "now", "objects", "gone", "timeline"]);

/**
 * @typedef {object} Change what a message changed
 * @property {boolean} everything whether nothing of the former world can be relied on
 * @property {Set<string>} objects ids of new, changed and vanished objects
 * @property {Set<string>} keys top-level keys that have changed
 */

/**
 * The world of a message: its objects in a Map, in the order they came.
 * @param {object} message
 * @returns {object}
 */
export function worldOf(message) {
  const { kind, ...world } = message;
  world.objects = new Map(Object.entries(message.objects ?? {}));
  world.timeline = message.timeline ?? null;
  return world;
}

/**
 * The world after a difference; the one given is left as it is.
 * @param {object} world
 * @param {object} diff
 * @returns {object}
 */
export function applied(world, diff) {
  const next = { ...world, seq: diff.seq, now: diff.now };
  if (diff.objects || diff.gone) {
    next.objects = new Map(world.objects);
    for (const id of diff.gone ?? []) next.objects.delete(id);
    for (const [id, row] of Object.entries(diff.objects ?? {})) next.objects.set(id, row);
  }
  if (diff.timeline) {
    const horizon = diff.now - TIMELINE_SECONDS;
    const samples = [...(world.timeline ?? []), ...diff.timeline];
    // The last sample before the horizon stays: it says how things stood there.
    const first = samples.findLastIndex(([time]) => time <= horizon);
    next.timeline = first > 0 ? samples.slice(first) : samples;
  }
  for (const key of Object.keys(diff)) {
    if (!ENVELOPE.has(key)) next[key] = diff[key];
  }
  return next;
}

/** @param {{reason: string, text: string}} pin @returns {string} what a pin is told by */
export function pinKey(pin) {
  return `${pin.reason}\n${pin.text}`;
}

/** One model's world, what is selected in it, and who wants to hear of it. */
export class Store {
  /** @param {() => number} clock milliseconds that only grow, such as performance.now */
  constructor(clock) {
    this.clock = clock;
    /** @type {object|null} */
    this.world = null;
    this.selected = "";
    this.alive = true;
    /** Objects that came: id → when the mark ends. */
    this.fresh = new Map();
    /** Objects that went: id → {row, until}. */
    this.vanished = new Map();
    /** Pins that came or went: id → Map of pinKey → {pin, fresh, until}. */
    this.pins = new Map();
    /** What held an object until just now: id → {held, until}. It may go in the next difference. */
    this.heldBy = new Map();
    this.listeners = new Set();
    this.heard = 0;
  }

  /** @param {(change: Change) => void} listener @returns {() => void} stops it */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Epoch seconds at the kernel, as far as the page can tell; stands still when the session is over. */
  now() {
    if (!this.world) return 0;
    const since = this.alive && !this.world.ended ? (this.clock() - this.heard) / 1000 : 0;
    return this.world.now + since;
  }

  /** @param {object} message of kind "world", or the trait @returns {void} */
  replace(message) {
    this.world = worldOf(message);
    this.heard = this.clock();
    this.fresh.clear();
    this.vanished.clear();
    this.pins.clear();
    this.heldBy.clear();
    this.tell({ everything: true, objects: new Set(), keys: new Set(Object.keys(this.world)) });
  }

  /**
   * @param {object} diff
   * @returns {boolean} false if something is missing in between: ask for everything
   */
  apply(diff) {
    if (!this.world || diff.seq > this.world.seq + 1) return false;
    if (diff.seq <= this.world.seq) return true; // the world that came meanwhile has it already
    const before = this.world.objects;
    this.world = applied(this.world, diff);
    this.heard = this.clock();
    const objects = new Set([...Object.keys(diff.objects ?? {}), ...(diff.gone ?? [])]);
    this.mark(before, objects);
    const keys = new Set(Object.keys(diff).filter((key) => !ENVELOPE.has(key)));
    if (objects.size) keys.add("objects");
    if (diff.timeline) keys.add("timeline");
    this.tell({ everything: false, objects, keys });
    return true;
  }

  /** Notes what came and went, until a moment later. */
  mark(before, ids) {
    const until = this.clock() + MARK_MS;
    for (const id of ids) {
      const [old, row] = [before.get(id), this.world.objects.get(id)];
      if (!row && old) {
        const last = this.heldBy.get(id);
        const held = old.held || (last?.until > this.clock() ? last.held : "");
        this.vanished.set(id, { row: { ...old, held }, until });
        this.fresh.delete(id);
        this.pins.delete(id);
        this.heldBy.delete(id);
      } else if (row && !old) {
        this.fresh.set(id, until);
        this.vanished.delete(id);
      } else if (row && old.pins !== row.pins) {
        if (row.held) this.heldBy.delete(id);
        else if (old.held) this.heldBy.set(id, { held: old.held, until });
        this.markPins(id, old.pins ?? [], row.pins ?? [], until);
      }
    }
  }

  /** @private */
  markPins(id, old, pins, until) {
    const marks = this.pins.get(id) ?? new Map();
    const [had, has] = [new Set(old.map(pinKey)), new Set(pins.map(pinKey))];
    for (const pin of pins) {
      if (!had.has(pinKey(pin))) marks.set(pinKey(pin), { pin, fresh: true, until });
    }
    for (const pin of old) {
      if (!has.has(pinKey(pin))) marks.set(pinKey(pin), { pin, fresh: false, until });
    }
    if (marks.size) this.pins.set(id, marks);
  }

  /**
   * Forgets marks whose time is over, and tells whose rows that changes.
   * @returns {number} in how many ms the next ends; Infinity without any
   */
  settle() {
    const now = this.clock();
    const objects = new Set();
    let next = Infinity;
    const over = (map, id, until) => {
      if (until > now) next = Math.min(next, until - now);
      else if (map.delete(id)) objects.add(id);
    };
    for (const [id, until] of this.fresh) over(this.fresh, id, until);
    for (const [id, { until }] of this.vanished) over(this.vanished, id, until);
    for (const [id, marks] of this.pins) {
      for (const [key, { until }] of marks) {
        if (until > now) next = Math.min(next, until - now);
        else if (marks.delete(key)) objects.add(id);
      }
      if (!marks.size) this.pins.delete(id);
    }
    if (objects.size) this.tell({ everything: false, objects, keys: new Set(["marks"]) });
    return next;
  }

  /** @param {string} id of an object, or "" @returns {boolean} whether that is news */
  select(id) {
    if (id === this.selected) return false;
    this.selected = id;
    this.tell({ everything: false, objects: new Set(), keys: new Set(["selected"]) });
    return true;
  }

  /** @param {boolean} alive whether a kernel answers @returns {void} */
  revive(alive) {
    if (alive === this.alive) return;
    if (!alive && this.world) this.world = { ...this.world, now: this.now() };
    this.alive = alive;
    this.heard = this.clock();
    this.tell({ everything: false, objects: new Set(), keys: new Set(["alive"]) });
  }

  /** What is selected: the row, or the one that has just vanished. @returns {object|null} */
  row() {
    const id = this.selected;
    return this.world?.objects.get(id) ?? this.vanished.get(id)?.row ?? null;
  }

  /** Whether its buttons can do anything. @returns {boolean} */
  get usable() {
    return this.alive && this.world != null && !this.world.ended;
  }

  /** @private */
  tell(change) {
    for (const listener of [...this.listeners]) listener(change);
  }
}
