// The last two minutes of live and spilled bytes, and when objects were put, freed, spilled.

import { bytes, counted } from "./format.js";
import { drawing, h, inline, setAttr, setText } from "./dom.js";
import { SIGNALS } from "./colors.js";

const PLOT_HEIGHT = 92;
const MARKS = 12;
const TOP = 4;
const BASE = PLOT_HEIGHT - MARKS;
/** In a sample [time, live, spilled, puts, frees, spills]. */
const [LIVE, SPILLED] = [1, 2];
const COUNTS = [3, 4, 5];

/** How often each happened in each of the columns: column → [puts, frees, spills]. */
export function happened(samples, column) {
  const found = new Map();
  for (let i = 1; i < samples.length; i += 1) {
    const more = COUNTS.map((at) => samples[i][at] - samples[i - 1][at]);
    if (!more.some((n) => n > 0)) continue;
    const at = column(samples[i][0]);
    const had = found.get(at) ?? [0, 0, 0];
    found.set(at, more.map((n, k) => n + had[k]));
  }
  return found;
}

function path(context, points) {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
}

export class Timeline {
  constructor() {
    this.canvas = h("canvas", { role: "img" });
    this.top = inline("wb-plot-top");
    const keys = ["put", "free", "spill"].map((what) => inline(`wb-mark-key wb-m-${what}`, what));
    const caption = h("figcaption", {}, inline("wb-bar-label", "Last two minutes"), ...keys);
    const plot = h("div", { class: "wb-plot" }, this.canvas, this.top);
    this.el = h("figure", { class: "wb-timeline" }, caption, plot);
    this.flat = false;
  }

  /** Until `now` (epoch seconds), in so many pixels, in a theme's colours. */
  draw({ timeline: samples, span: seconds, words }, now, width, theme) {
    if (width <= 0) return;
    const colors = SIGNALS[theme.dark ? "dark" : "light"];
    const context = drawing(this.canvas, width, PLOT_HEIGHT);
    const x = (time) => width - ((now - time) / seconds) * width;
    const most = Math.max(1, ...samples.map((sample) => Math.max(sample[LIVE] ?? 0, sample[SPILLED] ?? 0)));
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    for (const part of [0, 0.5, 1]) {
      const y = Math.round(TOP + (BASE - TOP) * part) + 0.5;
      path(context, [[0, y], [width, y]]);
      context.stroke();
    }
    const steps = (key, color, filled) => {
      const y = (sample) => BASE - ((sample[key] ?? 0) / most) * (BASE - TOP);
      this.steps(context, samples.map((sample) => [Math.max(x(sample[0]), 0), y(sample)]), width, color, filled);
    };
    if (samples.length) steps(LIVE, colors.live, true);
    if (samples.some((sample) => sample[SPILLED])) steps(SPILLED, colors.spilled, false);
    this.marks(context, happened(samples, (time) => Math.round(x(time))), colors, theme);
    setText(this.top, samples.length ? (most > 1 ? bytes(most) : "") : words.none.timeline);
    this.describe(samples, most, words.none.timeline);
    this.flat = !samples.length || samples.at(-1)[0] < now - seconds;
  }

  /** Stairs through these points: bytes stay until they change. */
  steps(context, points, width, color, filled) {
    const corners = points.flatMap(([x, y], i) => (i ? [[x, points[i - 1][1]], [x, y]] : [[x, y]]));
    const stairs = [...corners, [width, points.at(-1)[1]]];
    path(context, stairs);
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    if (!filled) return;
    path(context, [...stairs, [width, BASE], [points[0][0], BASE]]);
    context.globalAlpha = 0.16;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
  }

  /** Below the base: a tick up for puts, down for frees, a diamond for spills. */
  marks(context, columns, colors, theme) {
    const middle = BASE + 7;
    const tick = (at, top, color) => {
      context.fillStyle = color;
      context.fillRect(at - 0.5, top, 1.5, 4);
    };
    for (const [at, [puts, frees, spills]] of columns) {
      if (at < 0) continue;
      if (puts > 0) tick(at, middle - 4.5, colors.live);
      if (frees > 0) tick(at, middle + 0.5, theme.dim);
      if (spills > 0) {
        context.fillStyle = colors.spilled;
        path(context, [[at, middle - 4], [at + 3.5, middle], [at, middle + 4], [at - 3.5, middle]]);
        context.fill();
      }
    }
  }

  describe(samples, most, otherwise) {
    let said = otherwise;
    if (samples.length) {
      const [first, last] = [samples[0], samples.at(-1)];
      const [puts, frees, spills] = COUNTS.map((at) => (last[at] == null ? null : last[at] - first[at]));
      said =
        `live now ${bytes(last[LIVE])}, at most ${bytes(most)}; on disk ${bytes(last[SPILLED])}; ` +
        `${counted(puts, "put")}, ${counted(frees, "free")}, ${counted(spills, "spill")}`;
    }
    setAttr(this.canvas, "aria-label", `Last two minutes: ${said}`);
  }
}
