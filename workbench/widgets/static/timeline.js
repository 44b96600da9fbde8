// Two minutes of live and spilled bytes, and when objects were put, freed, spilled.

import { bytes, counted, UNKNOWN } from "./format.js";
import { drawing, h, setAttr, setText } from "./dom.js";
import { SIGNALS } from "./colors.js";
import { TIMELINE_SECONDS } from "./store.js";

const PLOT_HEIGHT = 92;
const MARKS = 12;
const TOP = 4;

/**
 * How often each happened in each of the columns.
 * @param {number[][]} samples of the timeline
 * @param {(time: number) => number} column
 * @returns {Map<number, number[]>} column → [puts, frees, spills]
 */
export function happened(samples, column) {
  const found = new Map();
  for (let i = 1; i < samples.length; i += 1) {
    const more = [3, 4, 5].map((at) => samples[i][at] - samples[i - 1][at]);
    if (!more.some((n) => n > 0)) continue;
    const at = column(samples[i][0]);
    const had = found.get(at) ?? [0, 0, 0];
    found.set(at, more.map((n, k) => n + had[k]));
  }
  return found;
}

export class Timeline {
  constructor() {
    this.canvas = h("canvas", { role: "img" });
    this.top = h("span", { class: "wb-plot-top" });
    this.el = h(
      "figure",
      { class: "wb-timeline" },
      h(
        "figcaption",
        {},
        h("span", { class: "wb-bar-label" }, "Last two minutes"),
        h("span", { class: "wb-mark-key wb-m-put" }, "put"),
        h("span", { class: "wb-mark-key wb-m-free" }, "free"),
        h("span", { class: "wb-mark-key wb-m-spill" }, "spill"),
      ),
      h("div", { class: "wb-plot" }, this.canvas, this.top),
    );
    this.flat = false;
  }

  /**
   * @param {object} world
   * @param {number} now epoch seconds
   * @param {number} width
   * @param {{dark: boolean, line: string, dim: string}} theme
   * @returns {void}
   */
  draw(world, now, width, theme) {
    if (width <= 0) return;
    const samples = world.timeline ?? [];
    const colors = SIGNALS[theme.dark ? "dark" : "light"];
    const context = drawing(this.canvas, width, PLOT_HEIGHT);
    const base = PLOT_HEIGHT - MARKS;
    const x = (time) => width - ((now - time) / TIMELINE_SECONDS) * width;
    const most = Math.max(1, ...samples.map(([, live, spilled]) => Math.max(live ?? 0, spilled ?? 0)));
    const y = (n) => base - (n / most) * (base - TOP);
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    for (const part of [0, 0.5, 1]) {
      const at = Math.round(TOP + (base - TOP) * part) + 0.5;
      context.beginPath();
      context.moveTo(0, at);
      context.lineTo(width, at);
      context.stroke();
    }
    if (samples.length) {
      this.steps(context, samples, 1, x, y, base, width, colors.live, true);
      if (samples.some((sample) => sample[2])) {
        this.steps(context, samples, 2, x, y, base, width, colors.spilled, false);
      }
    }
    this.marks(context, samples, x, base, theme.dark, colors, theme);
    const top = most > 1 ? bytes(most) : "";
    setText(this.top, world.timeline ? top : UNKNOWN);
    this.describe(samples, most, world.timeline ? "nothing has happened" : UNKNOWN);
    this.flat = !samples.length || samples.at(-1)[0] < now - TIMELINE_SECONDS;
  }

  /** Stairs: bytes stay until they change. @private */
  steps(context, samples, at, x, y, base, width, color, filled) {
    context.beginPath();
    let level = y(samples[0][at] ?? 0);
    const begin = Math.max(x(samples[0][0]), 0);
    context.moveTo(begin, level);
    for (const sample of samples) {
      const to = Math.max(x(sample[0]), 0);
      context.lineTo(to, level);
      level = y(sample[at] ?? 0);
      context.lineTo(to, level);
    }
    context.lineTo(width, level);
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    if (!filled) return;
    context.lineTo(width, base);
    context.lineTo(begin, base);
    context.globalAlpha = 0.16;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
  }

  /** Below the base: a tick up for puts, down for frees, a diamond for spills. @private */
  marks(context, samples, x, base, dark, colors, theme) {
    const middle = base + 7;
    for (const [at, [puts, frees, spills]] of happened(samples, (time) => Math.round(x(time)))) {
      if (at < 0) continue;
      if (puts > 0) this.bar(context, at, middle - 4.5, colors.live);
      if (frees > 0) this.bar(context, at, middle + 0.5, theme.dim);
      if (spills > 0) {
        context.fillStyle = colors.spilled;
        context.beginPath();
        context.moveTo(at, middle - 4);
        context.lineTo(at + 3.5, middle);
        context.lineTo(at, middle + 4);
        context.lineTo(at - 3.5, middle);
        context.fill();
      }
    }
  }

  /** @private */
  bar(context, at, top, color) {
    context.fillStyle = color;
    context.fillRect(at - 0.5, top, 1.5, 4);
  }

  /** @private */
  describe(samples, most, otherwise) {
    if (!samples.length) {
      setAttr(this.canvas, "aria-label", `Last two minutes: ${otherwise}`);
      return;
    }
    const [first, last] = [samples[0], samples.at(-1)];
    const [puts, frees, spills] = [3, 4, 5].map((at) => (last[at] == null ? null : last[at] - first[at]));
    const said =
      `Last two minutes: live now ${bytes(last[1])}, at most ${bytes(most)}; on disk ${bytes(last[2])}; ` +
      `${counted(puts, "put")}, ${counted(frees, "free")}, ${counted(spills, "spill")}`;
    setAttr(this.canvas, "aria-label", said);
  }
}
