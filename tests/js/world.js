// A made-up session for tests and the dev page: the same for the same seed, of any size, and alive if
// wanted. Speaks the kernel's side of the contract; knows nothing of the views.

const MB = 1_000_000;
const KINDS = [
  ["ndarray", "float64 (1000, 1000)"],
  ["DataFrame", "1 200 000 × 8"],
  ["ndarray", "uint8 (512, 512, 3)"],
  ["dict", "12 keys"],
  ["Table", "arrow, 4 columns"],
  ["Model", "sklearn.linear_model"],
  ["list", "20 000 items"],
  ["Tensor", "float32 (64, 3, 224, 224)"],
  ["bytes", ""],
];
const OWNERS = ["this notebook", "worker 1", "worker 2", "worker 3"];
const PINS = [
  (i) => ({ reason: "name", text: `it has the name features_${i}`, here: true }),
  () => ({ reason: "view", text: "arrays in this notebook show it: x, Out[3]", here: true }),
  () => ({ reason: "view", text: "arrays in worker 2 show it", here: false }),
  () => ({ reason: "ref", text: "an ObjectRef in this notebook: parts[2]", here: true }),
  () => ({ reason: "task", text: "task train needs it in worker 1", here: false }),
  () => ({ reason: "contained", text: "it is inside another object: batches", here: false }),
  () => ({ reason: "escaped", text: "a ref to it was pickled at cell 4, line 2", here: true }),
  () => ({ reason: "job", text: "it was made by background cell 5, which nobody has collected", here: true }),
  () => ({ reason: "user", text: "it was pinned at cell 7, line 1", here: true }),
];

/** @param {number} seed @returns {() => number} numbers in [0, 1), always the same ones (mulberry32) */
export function dice(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * @param {{listed?: number, others?: number, seed?: number, now?: number, engine?: string}} [wanted]
 * @returns {object} a world as in the contract
 */
export function makeWorld({ listed = 40, others = 0, seed = 1, now = 1_763_754_000, engine = "local" } = {}) {
  const roll = dice(seed);
  const segments = OWNERS.map((owner, i) => ({ id: `a${i}`, owner, granted: 0, live: 0, disk: false, end: 0 }));
  segments.push({ id: "d0", owner: "disk", granted: 0, live: 0, disk: true, end: 0 });
  const objects = {};
  for (let i = 0; i < listed; i += 1) {
    const row = makeRow(i, roll, segments, now, listed);
    objects[row.id] = row;
  }
  const bins = {};
  if (others) {
    for (const segment of segments.slice(0, 4)) {
      segment.end += 60 * MB;
      bins[segment.id] = Array.from({ length: 128 }, () => Math.floor(roll() * 0.4 * (segment.end / 128)));
    }
  }
  for (const segment of segments) segment.granted = Math.round(segment.end * 1.08);
  const memory = segments.filter(({ disk }) => !disk);
  const live = memory.reduce((sum, segment) => sum + segment.live, 0);
  const warm = memory.reduce((sum, segment) => sum + segment.granted - segment.live, 0);
  const capacity = Math.ceil((live + warm) / 0.7 / MB) * MB;
  return {
    seq: 1,
    now,
    session: "first-steps",
    engine,
    here: "first-steps.ipynb",
    ended: null,
    totals: {
      capacity,
      live,
      warm,
      spilled: segments[4].live,
      inline: 84_000,
      count: listed + others,
      available: capacity - live - warm,
      workers: 412 * MB,
      kernels: 690 * MB,
      machine: { total: capacity + 4000 * MB, available: 2900 * MB, what: "container" },
    },
    segments: segments.filter(({ end }) => end > 0),
    bins,
    objects,
    rest: others
      ? [
          { kind: "ndarray", count: Math.floor(others * 0.7), bytes: 21 * MB },
          { kind: "dict", count: others - Math.floor(others * 0.7), bytes: 9 * MB },
        ]
      : [],
    workers: [
      { number: 1, pid: 4101, state: "busy", tasks: ["train"], actor: "", bytes: 141 * MB },
      { number: 2, pid: 4102, state: "busy", tasks: ["cell 5"], actor: "", bytes: 98 * MB },
      { number: 3, pid: 4103, state: "blocked", tasks: ["merge"], actor: "", bytes: 87 * MB },
      { number: 4, pid: 4107, state: "idle", tasks: [], actor: "Counter", bytes: 86 * MB },
      { number: 5, pid: 4108, state: "idle", tasks: [], actor: "", bytes: null },
    ],
    jobs: makeJobs(now),
    timeline: makeTimeline(roll, live, segments[4].live, now),
    speed: 5.8e9,
  };
}

function makeRow(i, roll, segments, now, listed) {
  const [kind, detail] = KINDS[Math.floor(roll() ** 1.6 * KINDS.length)];
  const small = roll() < 0.3;
  const size = Math.floor((small ? 0.2 + roll() : 2 + roll() ** 3 * 90) * MB * Math.min(1, 400 / listed));
  const spilled = roll() < 0.12;
  const segment = segments[spilled ? 4 : Math.min(3, Math.floor(roll() * 6) - 2) < 0 ? 0 : Math.floor(roll() * 4)];
  const off = segment.end + Math.floor(roll() ** 4 * 6 * MB * Math.min(1, 400 / listed));
  segment.end = off + size;
  segment.live += size;
  const pins = [PINS[i % 3 === 0 ? 0 : 3](i)];
  for (const pin of PINS.slice(1)) if (roll() < 0.13) pins.push(pin(i));
  const resident = pins.some(({ reason }) => ["view", "user", "task"].includes(reason));
  const outband = kind === "ndarray" || kind === "Tensor" ? size : Math.floor(size * roll());
  const copy = size / (2.4e9 + roll() * 3.2e9);
  return {
    id: `o${i.toString(16).padStart(6, "0")}`,
    name: i % 3 === 0 ? `features_${i}` : "",
    held: i % 2 ? `parts[${i}]` : i % 3 === 0 ? "x, Out[3]" : "",
    kind,
    detail,
    size,
    where: spilled ? "disk" : "memory",
    state: "ready",
    seg: segment.id,
    off,
    len: size,
    born: now - Math.floor(roll() ** 4 * 9000),
    owner: segment.disk ? "this notebook" : segment.owner,
    strength: resident ? "resident" : roll() < 0.04 ? "freed" : "alive",
    pins,
    breaks: i % 5 === 0 ? "2 notebooks and a task still use it: reading it will fail there" : "",
    pickle: (size - outband) / 4e8 + roll() * 2e-4,
    copy,
    load: roll() < 0.4 ? null : roll() * 4e-3,
    inband: size - outband + 200,
    outband,
    buffers: outband ? 1 + Math.floor(roll() * 3) : 0,
    repeats: roll() < 0.08 ? 2 + Math.floor(roll() * 6) : 0,
    site: `cell ${1 + Math.floor(roll() * 12)}, line ${1 + Math.floor(roll() * 9)}`,
  };
}

function makeJobs(now) {
  const job = (number, state, more) => ({
    id: `j${number}`,
    number,
    name: `cell ${number}`,
    state,
    started: now - 75,
    seconds: null,
    share: null,
    size: 0,
    ended: null,
    worker: null,
    text: "",
    kept: false,
    ...more,
  });
  return [
    job(5, "running", { share: 0.42, worker: 2, text: "epoch 42 of 100, loss 0.132" }),
    job(8, "queued", { started: null, text: "waits for a worker" }),
    job(4, "done", { seconds: 12.4, text: "is done (3 lines of output)", kept: true }),
    job(3, "failed", { seconds: 0.8, text: "ValueError: could not convert string to float: 'n/a'" }),
  ];
}

function makeTimeline(roll, live, spilled, now) {
  const samples = [];
  const counts = [0, 0, 0];
  let share = 0.3;
  for (let t = now - 115; t <= now; t += 1.5 + roll() * 5) {
    share = Math.min(1, Math.max(0.15, share + (roll() - 0.38) * 0.2));
    counts[0] += Math.floor(roll() * 4);
    counts[1] += Math.floor(roll() * 2.2);
    counts[2] += roll() < 0.08 ? 1 : 0;
    samples.push([t, live * share, spilled * Math.min(1, counts[2] / 3), ...counts]);
  }
  samples.push([now, live, spilled, ...counts]);
  return samples;
}

/** A kernel that answers: anywidget's model, with the session behind it. */
export class FakeModel {
  /** @param {object} world @param {string[]} parts @param {string} key */
  constructor(world, parts = ["occupancy", "pins", "costs", "jobs"], key = "model-1") {
    this.world = world;
    this.traits = { world, parts, key };
    this.listeners = new Map();
    this.sent = [];
    this.busy = false;
    this.made = 0;
  }

  get(name) {
    return this.traits[name];
  }

  on(name, callback) {
    if (!this.listeners.has(name)) this.listeners.set(name, new Set());
    this.listeners.get(name).add(callback);
  }

  off(name, callback) {
    this.listeners.get(name)?.delete(callback);
  }

  emit(name, ...values) {
    for (const callback of this.listeners.get(name) ?? []) callback(...values);
  }

  /** @param {object} message from the kernel */
  tell(message) {
    this.emit("msg:custom", message);
  }

  /** @param {object} more keys of a difference */
  diff(more) {
    const { objects, gone, timeline, ...others } = more;
    this.world.seq += 1;
    this.world.now = more.now ?? this.world.now + 0.25;
    Object.assign(this.world.objects, objects);
    for (const id of gone ?? []) delete this.world.objects[id];
    if (timeline) this.world.timeline = [...this.world.timeline, ...timeline];
    Object.assign(this.world, others);
    this.tell({ kind: "diff", seq: this.world.seq, now: this.world.now, ...more });
  }

  send(message) {
    this.sent.push(message);
    if (message.do === "resync") this.tell({ kind: "world", ...this.world });
    if (message.number === undefined || this.busy) return;
    const answer = (ok, text, more = {}) =>
      this.tell({ kind: "answer", number: message.number, ok, text, ...more });
    const row = this.world.objects[message.id];
    this.tell({ kind: "noted", number: message.number });
    if (message.do === "free") {
      this.diff({ gone: [message.id] });
      answer(true, `freed: ${row.name || row.kind}`);
    } else if (message.do === "pin" || message.do === "unpin") {
      const pins = row.pins.filter(({ reason }) => reason !== "user");
      if (message.do === "pin") pins.push(PINS.at(-1)());
      const strength = pins.some(({ reason }) => ["view", "user"].includes(reason)) ? "resident" : "alive";
      this.diff({ objects: { [row.id]: { ...row, pins, strength } } });
      answer(true, message.do === "pin" ? "pinned: it won't move" : "unpinned");
    } else if (message.do === "why") {
      answer(true, "it is here because …", { html: "<p>It is here because it has a <b>name</b>.</p>" });
    } else if (message.do === "cost") {
      answer(true, "", makeCost(row));
    } else if (message.do === "spill") {
      answer(false, "it can't be spilled: arrays in worker 2 show it");
    } else {
      answer(true, message.force ? "killed: its worker's process was ended" : "asked to stop");
    }
  }

  /** A moment of a lively session: one comes, one goes, one changes its pins, progress is made. */
  live(seconds, roll = Math.random) {
    const { world } = this;
    const ids = Object.keys(world.objects);
    const now = world.now + seconds;
    const more = { now };
    const segments = world.segments.map((segment) => ({ ...segment }));
    const pick = world.objects[ids[Math.floor(roll() * ids.length)]];
    const dice3 = roll();
    const last = world.timeline.at(-1);
    let [, live, spilled, puts, frees, spills] = last;
    if (dice3 < 0.45) {
      this.made += 1;
      const row = makeRow(1e6 + this.made, roll, segments, now, ids.length);
      row.born = now;
      more.objects = { [row.id]: row };
      live += row.size;
      puts += 1;
    } else if (dice3 < 0.7 && ids.length > 10) {
      more.gone = [pick.id];
      live -= pick.size;
      frees += 1;
    } else {
      const pins = pick.pins.length > 1 ? pick.pins.slice(0, 1) : [...pick.pins, PINS[2]()];
      more.objects = { [pick.id]: { ...pick, pins, strength: pins.length > 1 ? "resident" : "alive" } };
    }
    more.segments = segments;
    more.timeline = [[now, live, spilled, puts, frees, spills]];
    more.totals = { ...world.totals, live, available: world.totals.capacity - world.totals.warm - live };
    more.jobs = world.jobs.map((job) =>
      job.share == null ? job : { ...job, share: Math.min(1, job.share + 0.003) },
    );
    this.diff(more);
  }
}

/** @param {object} row @returns {object} an answer to {do: "cost"} */
export function makeCost(row) {
  const leaf = (name, type, share, advice = []) => ({
    name,
    type,
    bytes: Math.round(row.size * share),
    seconds: row.pickle * share,
    share,
    children: [],
    advice,
  });
  const column = leaf("['name']", "object column", 0.93, [
    "column name is object dtype: 93 % of the time. As a string dtype it would be copied directly.",
  ]);
  const frame = { ...leaf(".frame", "DataFrame", 0.97), children: [column, leaf("['age']", "int64", 0.03)] };
  return {
    tree: { ...leaf("", row.kind, 1), children: [frame, leaf(".callbacks", "list", 0.02), leaf(".lock", "dict", 0.01)] },
    advice: ["Convert column name to string dtype: about 9 × faster."],
  };
}
