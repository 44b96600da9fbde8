// Lines of background cells: finds their places in the page, keeps them true, adds what a page has missed.
// A place has the line as it is saved; what stands there while a kernel lives is put over it.

import { button, h, withCode } from "./dom.js";

/** Milliseconds after which a place that wasn't renewed as the kernel said isn't of this page's making. */
const LAG = 1500;
/** Milliseconds without a word from the kernel after which a line that isn't over is said to be unsure. */
const SILENCE = 8000;
/** Milliseconds between two questions after lines that another kernel's cells have. */
const AGAIN = 2000;

/** Milliseconds for which a line without a place waits for its cell, which may not be drawn yet. */
const PATIENCE = 60_000;

const PLACE = "workbench-line";
const OUTPUTS = ".jp-OutputArea-output";
const STREAMS = ["stdout", "stderr"].map((name) => `[data-mime-type="application/vnd.jupyter.${name}"]`).join();

/** What is shown in each place. Several kernels' scripts may be in one page: the last that knew it owns it. */
function shownIn(place) {
  if (!place.wbLine) {
    const sign = h("span", { style: "margin-right:.5em" });
    const text = h("span");
    const bar = h("progress", { max: 1, style: "margin-left:1em;width:8em;height:8px", hidden: true });
    const press = button("Stop", null, { class: "workbench-line-stop", style: STYLE });
    const head = h("div", { style: "display:flex;align-items:center;min-height:24px" }, sign, text, bar, press);
    const notes = h("div", { style: "margin-left:1.5em" });
    const missed = h("div", { style: MISSED, hidden: true });
    const node = h("div", { class: "workbench-line-live", style: BODY }, head, notes, missed);
    place.wbLine = { node, sign, text, bar, press, notes, missed, owner: null };
  }
  return place.wbLine;
}

const FONT = "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:var(--jp-ui-font-size1,13px)";
const BODY = `${FONT};color:var(--jp-ui-font-color2,#666)`;
const STYLE =
  "margin-left:12px;font:inherit;height:24px;padding:0 10px;cursor:pointer;color:inherit;" +
  "border:1px solid var(--jp-border-color1,#bbb);border-radius:3px;background:var(--jp-layout-color2,#eee)";
const MISSED =
  "margin:4px 0;padding-left:8px;border-left:2px solid var(--jp-border-color2,#ccc);" +
  "font-size:var(--jp-code-font-size,13px);color:var(--jp-content-font-color1,inherit)";
const PRINTED =
  "margin:0;white-space:pre-wrap;font-family:var(--jp-code-font-family,monospace);max-height:24em;overflow:auto";

/** Text as a terminal shows it: without colours, and what was overwritten gone. */
export function settled(text) {
  const plain = text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "");
  return plain.replace(/\r+\n/g, "\n").replace(/[^\n]*\r(?=[^\n])/g, "").replace(/\r/g, "");
}

/**
 * What of `all` comes after what was `seen`; all of it if that can't be told. If the beginning of `all` is gone,
 * it is told by the last lines seen: where they come first, because rather twice than not at all.
 */
export function rest(all, seen) {
  const before = settled(seen).trimEnd();
  if (!before) return all;
  const lines = before.split("\n");
  // The last line may have been a bar that has been overwritten since.
  for (const known of [lines, lines.slice(0, -1)]) {
    for (let count = known.length; count > 0; count = count > 20 ? 20 : count - 1) {
      const last = known.slice(-count).join("\n");
      const at = all.indexOf(last);
      if (at >= 0) return all.slice(at + last.length).replace(/^\n/, "");
    }
  }
  return all;
}

/** What of `parts` isn't there yet: of the texts what comes after `seen`, of the displays those not in `has`. */
export function unseen(parts, seen, has) {
  const all = parts.filter((part) => typeof part === "string").join("");
  let skipped = all.length - rest(all, seen).length;
  const left = [];
  for (const part of parts) {
    if (typeof part !== "string") {
      if (!has(part)) left.push(part);
      continue;
    }
    const text = part.slice(skipped);
    skipped = Math.max(skipped - part.length, 0);
    if (text.trim()) left.push(text);
  }
  return left;
}

/** A display of a person's own cell as an element. Script elements in its HTML don't run. */
function drawn({ type, data }) {
  if (!type.startsWith("image/")) {
    const node = type === "text/html" ? h("div", { class: "jp-RenderedHTMLCommon" }) : h("pre", { style: PRINTED });
    if (type === "text/html") node.innerHTML = data;
    else node.textContent = data;
    return node;
  }
  const encoded = type === "image/svg+xml" ? `,${encodeURIComponent(data)}` : `;base64,${data.replace(/\s/g, "")}`;
  return h("img", { src: `data:${type}${encoded}`, style: "display:block;max-width:100%;margin:4px 0" });
}

/** What two drawings of one display have in common: the image, or else the text. */
const mark = (node) => node.querySelector("img")?.src ?? node.src ?? node.textContent.trim();

/** All of one model's: a kernel's, or one line's where the front end wants a view for each. */
class JobLines {
  constructor(model) {
    this.model = model;
    this.places = document.getElementsByClassName(PLACE);
    this.states = new Map(); // by name: what the kernel said last
    this.asked = new Set(); // names
    this.bare = new Map(); // names that had no place when they were told → since when
    this.seen = new Set(); // names that have had one
    this.below = new Map(); // what stands below others' outputs → its place
    this.last = new Map(); // by name: the place that was filled last
    model.on("msg:custom", (this.heard = (message) => this.hear(message)));
    this.observer = new MutationObserver(() => this.scan());
    this.observer.observe(document.body, { childList: true, subtree: true });
    this.timer = setInterval(() => this.look(), 1000);
    this.scan();
    this.ask([]);
  }

  close() {
    this.observer.disconnect();
    clearInterval(this.timer);
    this.model.off("msg:custom", this.heard);
  }

  ask(places) {
    const lines = places.map(({ dataset }) => ({ line: dataset.line, job: dataset.job, name: dataset.name }));
    this.model.send({ do: "lines", lines });
  }

  /** Called for every change of the page: new places are asked about, known ones filled before they are seen. */
  scan() {
    const unknown = [];
    for (const place of this.places) {
      const name = place.dataset.line;
      this.seen.add(name);
      const state = this.states.get(name);
      if (state && place.wbLine?.node.parentNode !== place) this.fill(place, state);
      if (this.asked.has(name)) continue;
      this.asked.add(name);
      unknown.push(place);
    }
    if (unknown.length) this.ask(unknown);
  }

  hear(message) {
    if (message.kind === "line") {
      const before = this.states.get(message.line);
      const now = performance.now();
      const since = before?.seq === message.seq ? before?.since : now;
      const state = { ...before, ...message, heard: now, since: since ?? now };
      this.states.set(message.line, state);
      this.asked.add(message.line);
      for (const place of this.places) {
        if (place.dataset.line !== message.line) continue;
        this.seen.add(message.line);
        shownIn(place).owner = this;
        this.fill(place, state);
      }
      if (!this.seen.has(message.line) && !this.bare.has(message.line)) this.bare.set(message.line, now);
    } else if (message.kind === "shown") {
      const state = this.states.get(message.line);
      if (!state) return;
      state.parts = message.parts.map((part) => (typeof part === "string" ? settled(part) : part));
      state.displays = { ...state.displays, ...message.displays };
      for (const place of this.places) if (place.dataset.line === message.line) this.fill(place, state);
    }
  }

  fill(place, state) {
    const before = this.last.get(state.line);
    // The kernel has renewed the saved line: what stood there moves on, as it is.
    if (!place.wbLine && before && !before.isConnected) place.wbLine = before.wbLine;
    const shown = shownIn(place);
    if (shown.owner !== null && shown.owner !== this) return;
    this.last.set(state.line, place);
    shown.owner = this;
    if (shown.node.parentNode !== place) place.replaceChildren(shown.node);
    const silent = !state.over && performance.now() - state.heard > SILENCE;
    const text = silent ? `${state.text} · no word from the kernel since then` : state.text;
    if (shown.text.textContent !== text) shown.text.textContent = text;
    if (shown.sign.textContent !== state.sign) shown.sign.textContent = state.sign;
    shown.sign.style.color = state.color;
    shown.bar.hidden = state.share == null;
    if (state.share != null) shown.bar.value = state.share;
    shown.press.hidden = !state.button || silent;
    if (state.button && shown.press.textContent !== state.button) shown.press.textContent = state.button;
    shown.press.title = state.title ?? "";
    shown.press.onclick = () => this.model.send({ do: "stop", line: state.line });
    const notes = state.notes.join("\n");
    if (shown.noted !== notes) {
      shown.noted = notes;
      shown.notes.replaceChildren(...state.notes.map((note) => h("div", {}, ...withCode(note))));
    }
    this.addMissed(place, shown, state);
  }

  /** A page that was opened later than its cell ran isn't sent what that shows: here it is. */
  addMissed(place, shown, state) {
    // Another page may have got the displays: they come with the answer to our own "follow".
    const isKnown = (part) => typeof part === "string" || state.displays[part];
    if (!state.parts?.every(isKnown) || !this.isLate(place, state)) return;
    const outputs = [...(place.closest(".jp-OutputArea")?.querySelectorAll(OUTPUTS) ?? [])];
    const printed = outputs.filter((output) => output.matches(STREAMS));
    const seen = printed.map(({ textContent }) => textContent).join("");
    const marks = outputs.filter((output) => !printed.includes(output)).map(mark);
    const isSeen = (number) => {
      const display = state.displays[number];
      const at = marks.indexOf((display.mark ??= mark(drawn(display))));
      return at >= 0 && marks.splice(at, 1).length > 0;
    };
    const parts = unseen(state.parts, seen, isSeen);
    shown.missed.hidden = !parts.length;
    // Below what is saved of its prints, which stands below the line.
    const area = place.closest(".jp-OutputArea");
    if (area && shown.missed.parentNode !== area) {
      shown.missed.style.marginLeft = "calc(var(--jp-cell-prompt-width, 64px) + 8px)";
      area.append(shown.missed);
      this.below.set(shown.missed, place);
    }
    const all = parts.map((part) => state.displays[part] ?? part);
    if (shown.last?.length === all.length && all.every((part, at) => part === shown.last[at])) return;
    shown.last = all;
    const draw = (part) => (typeof part === "string" ? h("pre", { style: PRINTED }, part) : drawn(part));
    shown.missed.replaceChildren(...all.map(draw));
    for (const node of shown.missed.children) node.scrollTop = node.scrollHeight;
  }

  /** Whether the kernel's renewals of the saved line don't come here: it shows another page's output. */
  isLate(place, state) {
    if (state.seq == null || Number(place.dataset.seq) >= state.seq) return false;
    return place.wbLate || (place.wbLate = performance.now() - state.since > LAG);
  }

  /** Once a second. */
  look() {
    const again = [];
    for (const [missed, place] of this.below) {
      if (place.isConnected) continue;
      missed.remove(); // the cell was run again, or its output cleared
      this.below.delete(missed);
    }
    for (const place of this.places) {
      const state = this.states.get(place.dataset.line);
      if (!state || shownIn(place).owner !== this) continue;
      if (state.foreign && !state.over && performance.now() - state.heard > AGAIN) again.push(place);
      if (!state.followed && this.isLate(place, state)) {
        state.followed = true;
        this.model.send({ do: "follow", line: state.line });
      }
      if (!state.over) this.fill(place, state);
    }
    if (again.length) this.ask(again);
    const bare = [...this.bare].filter(([, since]) => performance.now() - since > LAG);
    const isOver = ([name]) => this.states.get(name).over;
    // One that runs has the better claim to a cell of its text.
    for (const [name, since] of [...bare.filter((each) => !isOver(each)), ...bare.filter(isOver)]) {
      this.place(name);
      if (this.seen.has(name) || performance.now() - since > PATIENCE) this.bare.delete(name);
    }
  }

  /** A line without a place: the notebook wasn't saved since its cell began. Its cell is known by its text. */
  place(name) {
    const state = this.states.get(name);
    if (!state?.source || this.seen.has(name)) return;
    const wanted = state.source.split("\n");
    for (const cell of document.querySelectorAll(".jp-CodeCell")) {
      const lines = [...cell.querySelectorAll(".cm-line")].map(({ textContent }) => textContent);
      if (!lines.length || lines.some((line, number) => line !== wanted[number])) continue;
      if (lines.length < wanted.length && lines.length < 10) continue;
      // What is over may have been run again since.
      if (state.over && cell.querySelector(`.jp-OutputArea-child, .${PLACE}`)) continue;
      const place = h("div", { class: PLACE, "data-line": name, "data-job": state.job, "data-seq": 0 });
      place.style.padding = "4px 0 4px calc(var(--jp-cell-prompt-width, 64px) + 16px)";
      this.seen.add(name);
      cell.append(place);
      this.fill(place, state);
      return;
    }
  }
}

/** anywidget: the model has been made. */
function follow({ model }) {
  const lines = model.get("key") ? null : new JobLines(model);
  return () => lines?.close();
}

/** anywidget: one line in an element of the front end's own. */
function followOne({ model, el }) {
  const name = model.get("key");
  el.append(h("div", { class: PLACE, "data-line": name, "data-seq": 1e9 }));
  const lines = new JobLines(model);
  return () => lines.close();
}

export default { initialize: follow, render: followOne };
