// The view of what runs: background cells with Stop and Kill, workers with what they are at.

import { bytes, percent, seconds, span } from "./format.js";
import { h, setAttr, setText, setVar } from "./dom.js";

const OVER = new Set(["done", "failed", "stopped"]);
/** The latest first; those that run before all others. */
const ORDER = { running: 0, queued: 1, done: 2, failed: 2, stopped: 2 };

export class Jobs {
  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    this.lines = new Map();
    this.people = new Map();
    this.jobs = h("ul", { class: "wb-jobs-list", "aria-label": "Background cells" });
    this.none = h("p", { class: "wb-empty" });
    this.workers = h("ul", { class: "wb-workers-list", "aria-label": "Workers" });
    this.crew = h("h4", { class: "wb-bar-label" }, "Workers");
    this.nobody = h("p", { class: "wb-empty", hidden: true });
    this.note = h("p", { class: "wb-note wb-jobs-note", role: "status" });
    this.el = h(
      "div",
      { class: "wb-pane wb-jobs", role: "group", "aria-label": "Jobs" },
      h(
        "div",
        { class: "wb-jobs-body", tabindex: 0, role: "group", "aria-label": "Background cells and workers" },
        h("h4", { class: "wb-bar-label" }, "Background cells"),
        this.jobs,
        this.none,
        this.crew,
        this.workers,
        this.nobody,
      ),
      this.note,
    );
  }

  /** @param {import("./store.js").Change} change @returns {void} */
  update({ everything, keys }) {
    const { world } = this.session.store;
    if (everything || keys.has("jobs") || keys.has("alive") || keys.has("ended")) this.fillJobs(world);
    if (everything || keys.has("workers")) {
      this.fillWorkers(world.workers ?? []);
      setText(this.nobody, world.workers ? "No workers yet." : "Not known here.");
    }
  }

  /** @private */
  fillJobs(world) {
    const jobs = [...(world.jobs ?? [])];
    jobs.sort((a, b) => ORDER[a.state] - ORDER[b.state] || b.number - a.number);
    this.none.hidden = jobs.length > 0;
    setText(this.none, world.jobs ? "No background cells. %%remote starts one." : "Not known here.");
    keyed(this.jobs, this.lines, jobs, (job) => job.id, (job) => this.line(job));
    for (const job of jobs) this.fillJob(this.lines.get(job.id), job);
  }

  /** @private */
  line({ id, name }) {
    const button = (label, force, title) =>
      h(
        "button",
        {
          type: "button",
          class: `wb-button wb-small${force ? " wb-danger" : ""}`,
          title,
          "aria-label": `${label} ${name}`,
          onclick: () => this.stop(id, name, force),
        },
        label,
      );
    const parts = {
      name: h("span", { class: "wb-job-name" }),
      state: h("span", { class: "wb-job-state" }),
      where: h("span", { class: "wb-job-where" }),
      time: h("span", { class: "wb-job-time" }),
      text: h("span", { class: "wb-job-text" }),
      meter: h("span", { class: "wb-progress", role: "progressbar", "aria-label": `Progress of ${name}` }),
      stop: button("Stop", false, "Interrupts it, as Ctrl-C would"),
      kill: button("Kill", true, "Ends its worker's process"),
    };
    const row = h(
      "li",
      { class: "wb-job" },
      h("span", { class: "wb-dot", "aria-hidden": "true" }),
      parts.name,
      parts.state,
      parts.where,
      parts.time,
      h("span", { class: "wb-buttons" }, parts.stop, parts.kill),
      parts.meter,
      parts.text,
    );
    return { row, ...parts, job: null };
  }

  /** @private */
  fillJob(line, job) {
    if (line.job === job && line.usable === this.session.store.usable) return;
    line.job = job;
    line.usable = this.session.store.usable;
    setAttr(line.row, "data-state", job.state);
    setText(line.name, job.name);
    setText(line.state, job.state);
    setText(line.where, job.worker ? `worker ${job.worker}` : ""); // they count from 1
    const said = job.text === job.state ? "" : job.text;
    const kept = job.kept ? "kept until it is collected" : "";
    setText(line.text, [said, kept].filter(Boolean).join(" · "));
    const some = job.share != null && !OVER.has(job.state);
    line.meter.hidden = !some;
    if (some) {
      setVar(line.meter, "--wb-share", String(job.share));
      setAttr(line.meter, "aria-valuenow", Math.round(job.share * 100));
      setAttr(line.meter, "title", percent(job.share));
    }
    const over = OVER.has(job.state);
    line.stop.hidden = over;
    line.kill.hidden = job.state !== "running";
    line.stop.disabled = line.kill.disabled = !line.usable;
    this.time(line);
  }

  /** @private */
  time({ job, time }) {
    const running = job.state === "running" && job.started != null;
    const took = running ? this.session.store.now() - job.started : job.seconds;
    setText(time, took == null ? "" : running || took >= 60 ? span(took) : seconds(took));
  }

  /** @private */
  stop(id, name, force) {
    this.session.ask({ do: "stop", id, force }, ({ state, text }) => {
      setText(this.note, text ? `${name}: ${text}` : "");
      this.note.dataset.state = state;
    });
  }

  /** @private */
  fillWorkers(workers) {
    this.nobody.hidden = workers.length > 0;
    setText(this.crew, workers.length ? `Workers · ${workers.length}` : "Workers");
    keyed(this.workers, this.people, workers, (worker) => worker.number, () => this.person());
    for (const worker of workers) {
      const { row, name, does, size } = this.people.get(worker.number);
      setAttr(row, "data-state", worker.state);
      setAttr(row, "title", worker.pid ? `process ${worker.pid}` : null);
      setText(name, `worker ${worker.number}`);
      const tasks = worker.tasks?.length ? worker.tasks.join(", ") : worker.state;
      const waits = worker.state === "blocked" ? " (waits, its slot is lent)" : "";
      setText(does, worker.actor ? `${worker.actor} · ${tasks}` : tasks + waits);
      setText(size, bytes(worker.bytes));
    }
  }

  /** @private */
  person() {
    const name = h("span", { class: "wb-worker-name" });
    const does = h("span", { class: "wb-worker-does" });
    const size = h("span", { class: "wb-worker-size" });
    const dot = h("span", { class: "wb-dot", "aria-hidden": "true" });
    return { row: h("li", { class: "wb-worker" }, dot, name, does, size), name, does, size };
  }

  /** Time went on: what runs shows it. */
  tick() {
    for (const line of this.lines.values()) {
      if (line.job?.state === "running") this.time(line);
    }
  }

  /** Nothing here depends on the width. */
  measure() {}
}

/** Elements for things by key, in the things' order; those that stay aren't touched. */
function keyed(list, nodes, things, key, make) {
  const keys = new Set(things.map(key));
  for (const [id, { row }] of nodes) {
    if (keys.has(id)) continue;
    row.remove();
    nodes.delete(id);
  }
  things.forEach((thing, index) => {
    if (!nodes.has(key(thing))) nodes.set(key(thing), make(thing));
    const { row } = nodes.get(key(thing));
    if (list.children[index] !== row) list.insertBefore(row, list.children[index] ?? null);
  });
}
