// A made-up session for tests and the dev page: the same for the same seed, of any size, and alive if
// wanted. Speaks the kernel's side of the contract, report/page.py, to which
// tests/unit/report/test_page.py holds it; knows nothing of the views.

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
  (i) => ({ reason: "name", text: `named features_${i}`, here: false, n: 1 }),
  () => ({ reason: "view", text: "arrays in this notebook: x, Out[3]", here: true, n: 1 }),
  () => ({ reason: "view", text: "arrays in worker 2", here: false, n: 1 }),
  () => ({ reason: "ref", text: "ref in this notebook: parts[2]", here: true, n: 1 }),
  () => ({ reason: "task", text: "needed by 1 task", here: false, n: 1 }),
  () => ({ reason: "contained", text: "inside 2 objects", here: false, n: 2 }),
  () => ({ reason: "escaped", text: "ref pickled at cell 4, line 2", here: false, n: 1 }),
  () => ({ reason: "job", text: "result of cell 5, not fetched", here: false, n: 1 }),
  () => ({ reason: "user", text: "pinned at cell 7, line 1", here: false, n: 1 }),
];

/** The kernel's words, as it sends them: the Python test holds these to them. */
export const WORDS = {
  reasons: {
    name: ["named", "named"],
    user: ["pinned", "pinned"],
    job: ["result not fetched", "results not fetched"],
    ref: ["ref", "refs"],
    task: ["task", "tasks"],
    contained: ["inside another", "inside others"],
    escaped: ["pickled ref", "pickled refs"],
    view: ["arrays", "arrays"],
  },
  where: { inline: "too small for shared memory", memory: "in shared memory", worker: "in a worker's memory", disk: "on disk", pending: "pending" },
  movable: { no: "can't move to disk", yes: "can move to disk", freed: "freed, still shown" },
  ages: [[10, "under 10 s"], [60, "under 1 min"], [600, "under 10 min"], [3600, "under 1 h"], [null, "older"]],
  parts: {
    live: ["live", "Objects that something refers to or shows"],
    reusable: ["reusable", "Freed, and kept for new objects: writing to it is faster"],
    available: ["available", "Not used yet"],
    spilled: ["on disk", "Spilled: in a file, and no part of the memory above"],
    store: ["store", "Live and reusable memory of the store"],
    workers: ["workers", "Workers' own memory"],
    kernels: ["notebooks", "Own memory of notebooks and scripts"],
    others: ["others", "All else that runs here"],
    free: ["available", "For anyone"],
    variables: ["variables", "Of the notebook or script"],
    outputs: ["Out", "Results of cells"],
    frames: ["functions", "Variables of running ones, or kept by an error"],
    figures: ["figures", "Not closed yet"],
    objects: ["modules", "Modules, and all other Python objects"],
    kept: ["kept free", "By Python and malloc, for what comes"],
    files: ["libraries", "Files that are mapped"],
    stored: ["shared", "The store, as far as it was used here"],
    unexplained: ["not explained", "Held by no object that was found"],
  },
  none: {
    objects: "No objects. %put makes one.",
    segments: "Nothing in shared memory yet.",
    costs: "Nothing has been serialized yet.",
    jobs: "No background cells. %%remote starts one.",
    workers: "No workers yet.",
    timeline: "Nothing has happened yet.",
    history: "Nothing is kept. `%workbench keep` keeps the variables after each cell from now on.",
  },
  lessons: {
    pins: [
      "An object lives while a name, a ref, a task or another object refers to it, or an array shows it.",
      "To let go: delete the variables that hold or show it (del x), and %free its name. Select an object: “Copy %why” tells what ends each reason.",
      "Held in memory (can move: no): arrays show it, it is pinned, or a task reads it. All else goes to disk when memory runs short, and comes back when it is read.",
    ],
    costs: [
      "Pickle takes an object apart, copy brings its bytes into shared memory, load builds it again in the process that reads it first.",
      "What is copied directly (arrays, columns, tensors) costs a copy and nothing to load. What is pickled costs time on both sides. Select an object for its parts.",
    ],
    history: [
      "The variables are kept as they were after each cell: select one to see what it changed.",
      "“Check out” sets the variables to that, and the next cell follows it; what cells did elsewhere, as in files, stays. `%workbench branch NAME` names where you are before.",
    ],
  },
  can: { free: "", pin: "", unpin: "", spill: "", why: "", cost: "", stop: "", look: "", checkout: "" },
  cold: "new memory: Linux clears it on first use",
  repeats: "serialized {} ×: put it once",
  least: 1_048_576,
};

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
 * @param {{listed?: number, others?: number, seed?: number, now?: number}} [wanted]
 * @returns {object} a world as in the contract
 */
export function makeWorld({ listed = 40, others = 0, seed = 1, now = 1_763_754_000 } = {}) {
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
    kind: "world",
    seq: 1,
    now,
    session: "first-steps",
    scope: "",
    here: "first-steps.ipynb",
    ended: null,
    span: 120,
    count: listed + others,
    bars: [storeBar(capacity, live, warm, segments[4].live), machineBar(capacity, live + warm), processBar()],
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
      { number: 1, pid: 4101, state: "busy", does: "train", bytes: 141 * MB },
      { number: 2, pid: 4102, state: "busy", does: "cell 5", bytes: 98 * MB },
      { number: 3, pid: 4103, state: "blocked", does: "merge (waits, its slot is lent)", bytes: 87 * MB },
      { number: 4, pid: 4107, state: "idle", does: "Counter: idle", bytes: 86 * MB },
      { number: 5, pid: 4108, state: "idle", does: "idle", bytes: null },
    ],
    workers_heading: "Workers · 4 · 1 of an actor",
    jobs: makeJobs(now),
    history: makeHistory(),
    timeline: makeTimeline(roll, live, segments[4].live, now),
    speed: 5.8e9,
    hues: {
      type: { ndarray: 0, DataFrame: 2, dict: 1, list: 3, Tensor: 4, Model: 5 },
      owner: Object.fromEntries(OWNERS.map((owner, i) => [owner, i])),
    },
    words: WORDS,
  };
}

function storeBar(capacity, live, reusable, spilled) {
  const available = capacity - live - reusable;
  const figure = `${Math.round(live / MB)} MB of ${Math.round(capacity / MB)} MB`;
  const parts = [["live", live], ["reusable", reusable], ["available", available]];
  const note = "84 kB of objects too small for shared memory";
  return { label: "Store", figure, note, whole: true, parts, beside: [["spilled", spilled]] };
}

function machineBar(capacity, store) {
  const total = capacity + 4000 * MB;
  const others = total - store - (412 + 690 + 2900) * MB;
  const figure = `${Math.round(total / MB) - 2900} MB of ${Math.round(total / MB)} MB in use`;
  const parts = [["store", store], ["workers", 412 * MB], ["kernels", 690 * MB], ["others", others], ["free", 2900 * MB]];
  return { label: "This container", figure, note: "", whole: true, parts, beside: [] };
}

function processBar() {
  const parts = [["variables", 402], ["outputs", 48], ["frames", 21], ["objects", 84], ["kept", 36], ["files", 75]];
  const sized = [...parts, ["stored", 16], ["unexplained", 8]].map(([part, size]) => [part, size * MB]);
  return { label: "This notebook", figure: "690 MB", note: "", whole: true, parts: sized, beside: [] };
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
  const stays = pins.filter(({ reason }) => ["view", "user"].includes(reason));
  const name = i % 3 === 0 ? `features_${i}` : "";
  const held = i % 2 ? `parts[${i}]` : i % 3 === 0 ? "x, Out[3]" : "";
  const outband = kind === "ndarray" || kind === "Tensor" ? size : Math.floor(size * roll());
  const copy = size / (2.4e9 + roll() * 3.2e9);
  return {
    id: `o${i.toString(16).padStart(6, "0")}`,
    title: name || held || "from cell 3, line 2",
    name,
    held,
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
    movable: stays.length ? "no" : roll() < 0.04 ? "freed" : "yes",
    stays: stays.map(({ reason }) => WORDS.reasons[reason][0]).join(", "),
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
    cold: roll() < 0.2,
  };
}

function makeJobs(now) {
  const job = (number, state, more) => ({
    id: `j${number}`,
    name: `cell ${number}`,
    state,
    where: "worker 2",
    text: "",
    started: null,
    seconds: null,
    share: null,
    ...more,
  });
  return [
    job(5, "running", { started: Math.round(now) - 75, share: 0.42, text: "42 of 100 · 12 lines" }),
    job(8, "queued", { where: "" }),
    job(4, "done", { seconds: 12.4, text: "3 lines · not fetched" }),
    job(3, "failed", { seconds: 0.8, text: "1 line" }),
  ];
}

/** Without the line, which the kernel draws. */
function makeHistory() {
  const figures = { graph: "", changed: "data, del raw", size: "80 MB", took: "12 ms", when: "14:02:12" };
  const step = (id, here, ...branches) => ({ ...figures, id, title: `Cell [${id}]`, branches, here });
  return [step("4", false), step("3", true, "main (here)"), step("2", false), step("1", false, "trial")];
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
    const levels = [live * share, spilled * Math.min(1, counts[2] / 3)].map(Math.round);
    samples.push([t, ...levels, ...counts]);
  }
  samples.push([now, live, spilled, ...counts]);
  return samples;
}

/** A kernel that answers: anywidget's model, with the session behind it. */
export class FakeModel {
  /** @param {object} world @param {string[]} parts @param {string} key */
  constructor(world, parts = ["occupancy", "pins", "costs", "jobs", "history"], key = "model-1") {
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
    if (message.do === "resync") this.tell(this.world);
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
      const movable = pins.some(({ reason }) => ["view", "user"].includes(reason)) ? "no" : "yes";
      this.diff({ objects: { [row.id]: { ...row, pins, movable } } });
      answer(true, message.do === "pin" ? "pinned: it won't move" : "unpinned");
    } else if (message.do === "why") {
      answer(true, "it is here because …", { html: "<p>It is here because it has a <b>name</b>.</p>" });
    } else if (message.do === "cost") {
      answer(true, "", makeCost(row));
    } else if (message.do === "look") {
      answer(true, "", { html: "<p>It changed <b>data</b>.</p>" });
    } else if (message.do === "checkout") {
      const history = this.world.history.map((each) => ({ ...each, here: each.id === message.id }));
      this.diff({ history });
      answer(true, "The variables are as of cell [3], 14:02:12.");
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
      more.objects = { [pick.id]: { ...pick, pins, movable: pins.length > 1 ? "no" : "yes" } };
    }
    more.segments = segments;
    more.timeline = [[now, live, spilled, puts, frees, spills]];
    const [[, was], [, reusable], [, available]] = world.bars[0].parts;
    more.bars = [storeBar(was + reusable + available, live, reusable, spilled), ...world.bars.slice(1)];
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
