// The view of what runs: background cells with Stop and Kill, workers with what they are at.

import { bytes, elapsed, seconds, share } from "./format.js";
import { button, dropAllBut, h, inline, pane, say, setAttr, setChildren, setText, setVar, withCode } from "./dom.js";

const isOver = ({ state }) => state !== "running" && state !== "queued";
const dot = () => h("span", { class: "wb-dot", "aria-hidden": "true" });

/** Elements for things by key, in the things' order; those that stay aren't touched. */
class Lines {
  constructor(label, name, key, make, fill) {
    Object.assign(this, { key, make, fill, nodes: new Map() });
    this.list = h("ul", { class: name, "aria-label": label });
    this.none = h("p", { class: "wb-empty" });
  }

  update(things, none) {
    this.none.hidden = things.length > 0;
    setText(this.none, none);
    dropAllBut(this.nodes, new Set(things.map(this.key)));
    things.forEach((thing, index) => {
      const key = this.key(thing);
      if (!this.nodes.has(key)) this.nodes.set(key, this.make(thing));
      const line = this.nodes.get(key);
      const at = this.list.children[index];
      if (at !== line.row) this.list.insertBefore(line.row, at ?? null);
      this.fill(line, thing);
    });
  }
}

export class Jobs {
  constructor(session) {
    this.session = session;
    const heading = (text) => h("h4", { class: "wb-bar-label" }, text);
    this.jobs = new Lines(
      "Background cells",
      "wb-jobs-list",
      (job) => job.id,
      (job) => this.line(job),
      (line, job) => this.fillJob(line, job),
    );
    this.workers = new Lines("Workers", "wb-workers-list", (worker) => worker.number, person, fillPerson);
    this.workersHeading = heading("Workers");
    this.cant = h("p", { class: "wb-cant", hidden: true });
    this.asked = new Map(); // job → the last thing asked of it
    this.note = h("p", { class: "wb-note wb-jobs-note", role: "status" });
    const body = h(
      "div",
      { class: "wb-jobs-body", tabindex: 0, role: "group", "aria-label": "Background cells and workers" },
      heading("Background cells"),
      this.jobs.list,
      this.jobs.none,
      this.cant,
      this.workersHeading,
      this.workers.list,
      this.workers.none,
    );
    this.el = pane("wb-jobs", "Jobs", body, this.note);
  }

  update({ everything, keys }) {
    const { jobs, workers, workers_heading, words } = this.session.store.world;
    if (everything || ["jobs", "alive", "ended"].some((key) => keys.has(key))) {
      this.jobs.update(jobs ?? [], words.none.jobs);
      setChildren(this.cant, words.can.stop, () => withCode(words.can.stop));
      this.cant.hidden = !words.can.stop || (jobs ?? []).every(isOver);
    }
    if (everything || keys.has("workers") || keys.has("workers_heading")) {
      setText(this.workersHeading, workers_heading);
      this.workers.update(workers ?? [], words.none.workers);
    }
  }

  line({ id, name }) {
    const ends = (label, force, title) =>
      button(label, () => this.stop(id, name, force), {
        class: `wb-small${force ? " wb-danger" : ""}`,
        title,
        "aria-label": `${label} ${name}`,
      });
    const line = {
      name: inline("wb-job-name", name),
      state: inline("wb-job-state"),
      where: inline("wb-job-where"),
      time: inline("wb-job-time"),
      text: inline("wb-job-text"),
      meter: h("span", { class: "wb-progress", role: "progressbar", "aria-label": `Progress of ${name}` }),
      stop: ends("Stop", false, "Interrupts it, as Ctrl-C would"),
      kill: ends("Kill", true, "Ends its worker's process"),
    };
    const buttons = inline("wb-buttons", line.stop, line.kill);
    const parts = [line.name, line.state, line.where, line.time, buttons, line.meter, line.text];
    return { row: h("li", { class: "wb-job" }, dot(), ...parts), ...line };
  }

  fillJob(line, job) {
    const { usable } = this.session.store;
    if (line.job === job && line.usable === usable) return;
    Object.assign(line, { job, usable });
    setAttr(line.row, "data-state", job.state);
    setText(line.state, usable || isOver(job) ? job.state : `was ${job.state}`);
    setText(line.where, job.where);
    setText(line.text, job.text);
    const over = isOver(job);
    line.meter.hidden = over || job.share == null;
    if (!line.meter.hidden) {
      setVar(line.meter, "--wb-share", String(job.share));
      setAttr(line.meter, "aria-valuenow", Math.round(job.share * 100));
      setAttr(line.meter, "title", share(job.share));
    }
    const cant = Boolean(this.session.store.world.words.can.stop); // why stands below, once
    line.stop.hidden = over || cant;
    line.kill.hidden = job.state !== "running" || cant;
    line.stop.disabled = line.kill.disabled = !usable;
    this.time(line);
  }

  time({ job, time }) {
    const running = job.state === "running" && job.started != null;
    const took = running ? this.session.store.now() - job.started : job.seconds;
    setText(time, took == null ? "" : running || took >= 60 ? elapsed(took) : seconds(took));
  }

  stop(id, name, force) {
    // Of a cell that is killed while Stop waits for its end, Stop's answer is that it has stopped.
    const request = { do: "stop", id, force };
    this.asked.set(id, request);
    this.session.actions.ask(request, ({ state, text }) => {
      if (this.asked.get(id) === request) say(this.note, text ? `${name}: ${text}` : "", state);
    });
  }

  /** What runs shows the time. */
  tick() {
    for (const line of this.jobs.nodes.values()) {
      if (line.job.state === "running") this.time(line);
    }
  }
}

function person({ number }) {
  const does = inline("wb-worker-does");
  const size = inline("wb-worker-size");
  const name = inline("wb-worker-name", `worker ${number}`);
  return { row: h("li", { class: "wb-worker" }, dot(), name, does, size), does, size };
}

function fillPerson({ row, does, size }, worker) {
  setAttr(row, "data-state", worker.state);
  setAttr(row, "title", worker.pid ? `process ${worker.pid}` : null);
  setText(does, worker.does);
  setText(size, bytes(worker.bytes));
}
