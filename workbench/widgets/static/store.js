// The world as the page knows it: kernel messages in → a new world, and what changed. Pure: time is
// passed in, nothing is drawn, nothing is sent. What a world consists of stands in report/page.py.

/** What a page says, and whoever waits for an answer, when nobody answers any more. */
export const GONE = "the kernel has ended: this is its last known state";

/** How long, in ms, what is new or has vanished stays marked. */
export const MARK_MS = 1500;

const ENVELOPE = new Set(["kind", "seq", "now", "objects", "gone", "timeline"]);

/**
 * @typedef {object} Change what a message changed
 * @property {boolean} everything whether nothing of the former world can be relied on
 * @property {Set<string>} objects ids of new, changed and vanished objects
 * @property {Set<string>} keys top-level keys that have changed
 */

/** A change of nothing but these keys. */
export const changeOf = (...keys) => ({ everything: false, objects: new Set(), keys: new Set(keys) });

/** The world of a message: its objects in a Map, in the order they came. */
export function worldOf({ kind, ...world }) {
  return { ...world, objects: new Map(Object.entries(world.objects)) };
}

/** The world after a difference; the one given is left as it is. */
export function applied(world, diff) {
  const next = { ...world, seq: diff.seq, now: diff.now };
  if (diff.objects || diff.gone) {
    next.objects = new Map(world.objects);
    for (const id of diff.gone ?? []) next.objects.delete(id);
    for (const [id, row] of Object.entries(diff.objects ?? {})) next.objects.set(id, row);
  }
  if (diff.timeline) {
    const samples = [...world.timeline, ...diff.timeline];
    // The last sample before the horizon stays: it says how things stood there.
    const first = samples.findLastIndex(([time]) => time <= diff.now - world.span);
    next.timeline = first > 0 ? samples.slice(first) : samples;
  }
  for (const key of Object.keys(diff)) {
    if (!ENVELOPE.has(key)) next[key] = diff[key];
  }
  return next;
}

/** What a pin is told by. */
export const pinKey = ({ reason, text }) => `${reason}\n${text}`;

/** One model's world, what is selected in it, and who wants to hear of it. */
export class Store {
  /** `clock` gives milliseconds that only grow, such as performance.now. */
  constructor(clock) {
    this.clock = clock;
    this.world = null;
    this.selected = "";
    this.alive = true;
    /** Objects that came: id → when the mark ends. */
    this.fresh = new Map();
    /** Objects that went: id → {row, until}. */
    this.vanished = new Map();
    /** Pins that came or went: id → Map of pinKey → {pin, fresh, until}. */
    this.pins = new Map();
    /** What an object was called until just now: id → {held, title, until}. It may go in the next difference. */
    this.called = new Map();
    this.listeners = new Set();
    this.heard = 0;
  }

  /** Calls a listener with each Change; what is returned stops that. */
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

  /** A message of kind "world", or the trait. */
  replace(message) {
    this.world = worldOf(message);
    this.heard = this.clock();
    for (const marks of [this.fresh, this.vanished, this.pins, this.called]) marks.clear();
    this.tell({ ...changeOf(...Object.keys(this.world)), everything: true });
  }

  /** Takes in a difference; false if something is missing in between: ask for everything. */
  apply(diff) {
    if (!this.world || diff.seq > this.world.seq + 1) return false;
    if (diff.seq <= this.world.seq) return true; // the world that came meanwhile has it already
    const before = this.world.objects;
    this.world = applied(this.world, diff);
    this.heard = this.clock();
    const objects = new Set([...Object.keys(diff.objects ?? {}), ...(diff.gone ?? [])]);
    this.mark(before, objects);
    const change = changeOf(...Object.keys(diff).filter((key) => !ENVELOPE.has(key)));
    if (objects.size) change.keys.add("objects");
    if (diff.timeline) change.keys.add("timeline");
    this.tell({ ...change, objects });
    return true;
  }

  /** Notes what came and went, until a moment later. */
  mark(before, ids) {
    const until = this.clock() + MARK_MS;
    for (const id of ids) {
      const [old, row] = [before.get(id), this.world.objects.get(id)];
      if (!row && old) {
        const last = this.called.get(id);
        const { held, title } = !old.held && last?.until > this.clock() ? last : old;
        this.vanished.set(id, { row: { ...old, held, title }, until });
        for (const marks of [this.fresh, this.pins, this.called]) marks.delete(id);
      } else if (row && !old) {
        this.fresh.set(id, until);
        this.vanished.delete(id);
      } else if (row && old.pins !== row.pins) {
        if (row.held) this.called.delete(id);
        else if (old.held) this.called.set(id, { held: old.held, title: old.title, until });
        this.markPins(id, old.pins ?? [], row.pins ?? [], until);
      }
    }
  }

  markPins(id, old, pins, until) {
    const marks = this.pins.get(id) ?? new Map();
    const note = (these, others, fresh) => {
      const known = new Set(others.map(pinKey));
      for (const pin of these) if (!known.has(pinKey(pin))) marks.set(pinKey(pin), { pin, fresh, until });
    };
    note(pins, old, true);
    note(old, pins, false);
    if (marks.size) this.pins.set(id, marks);
  }

  /** Forgets marks whose time is over, tells whose rows that changes; in how many ms the next ends, or Infinity. */
  settle() {
    const now = this.clock();
    const objects = new Set();
    let next = Infinity;
    const over = (map, key, until, id = key) => {
      if (until > now) next = Math.min(next, until - now);
      else if (map.delete(key)) objects.add(id);
    };
    for (const [id, until] of this.fresh) over(this.fresh, id, until);
    for (const [id, { until }] of this.vanished) over(this.vanished, id, until);
    for (const [id, marks] of this.pins) {
      for (const [key, { until }] of marks) over(marks, key, until, id);
      if (!marks.size) this.pins.delete(id);
    }
    if (objects.size) this.tell({ ...changeOf("marks"), objects });
    return next;
  }

  /** Selects an object, or "" none; whether that is news. */
  select(id) {
    if (id === this.selected) return false;
    this.selected = id;
    this.tell(changeOf("selected"));
    return true;
  }

  /** Whether a kernel answers. */
  revive(alive) {
    if (alive === this.alive) return;
    if (!alive && this.world) this.world = { ...this.world, now: this.now() };
    this.alive = alive;
    this.heard = this.clock();
    this.tell(changeOf("alive"));
  }

  /** What is selected: the row, or the one that has just vanished; or null. */
  row() {
    const id = this.selected;
    return this.world?.objects.get(id) ?? this.vanished.get(id)?.row ?? null;
  }

  /** Whether its buttons can do anything. */
  get usable() {
    return this.alive && this.world != null && !this.world.ended;
  }

  tell(change) {
    for (const listener of [...this.listeners]) listener(change);
  }
}
