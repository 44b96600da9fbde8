// Colours: which objects share one, and how it looks on light and on dark. Pure; the palettes are
// Okabe and Ito's (jfly.uni-koeln.de/color), made darker or lighter where 3:1 against the ground wants it.

import { UNKNOWN } from "./format.js";

/** Six hues that the colour-blind tell apart, then grey for all others. */
const HUES = {
  light: ["#0072b2", "#c97f00", "#00896a", "#b65a90", "#d55e00", "#3f97cf"],
  dark: ["#4fa3e0", "#e8a317", "#2cb68c", "#d98cb8", "#ee7f45", "#8fd0f7"],
};
const OTHER = { light: "#808080", dark: "#9b9b9b" };
/** From just now to long ago, in equal steps of lightness (after viridis). */
const AGES = {
  light: ["#b8860b", "#4f9a4d", "#1f8a8c", "#3b5b92", "#4b2e6b"],
  dark: ["#f6dd55", "#7ccb5f", "#35b0a0", "#5d8bd0", "#9479c4"],
};

/** What objects can be coloured by, and the side of a row that decides. */
export const COLOR_BY = { type: "kind", owner: "owner", age: "born", movable: "movable" };

/** What isn't an object: parts of bars, lines of the timeline, states. Style sheets get them by name. */
export const SIGNALS = {
  light: { live: "#0072b2", spilled: "#b3640a", workers: "#00805f", kernels: "#a34f80", good: "#00805f",
    bad: "#c02626", busy: "#0072b2" },
  dark: { live: "#4fa3e0", spilled: "#e8a317", workers: "#2cb68c", kernels: "#d98cb8", good: "#2cb68c",
    bad: "#ff8a80", busy: "#4fa3e0" },
};

const groundOf = (dark) => (dark ? "dark" : "light");

/** Whether "#rrggbb", or "rgb(…)", "rgba(…)" or "color(srgb …)" as a browser computes it, is a dark ground. */
export function isDark(color) {
  if (color.startsWith("#")) {
    return isDark(`rgb(${[1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16))})`);
  }
  const parts = color.match(/[\d.]+(?:e-?\d+)?/g)?.map(Number) ?? [255, 255, 255];
  const unit = color.startsWith("color(") ? 1 : 255;
  const [r, g, b] = parts.map((part) => part / unit);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.5;
}

/** Which of an object's sides is coloured, and who has which colour: the kernel says, for all pages. */
export class Coloring {
  /** `by` is one of COLOR_BY; `words` are the kernel's for ages and for what can move. */
  constructor(by, words) {
    this.by = by;
    this.ages = words?.ages ?? [];
    this.movable = Object.entries(words?.movable ?? {});
    this.given = new Map();
    this.others = false;
  }

  /** Takes the hues that the kernel has given (group → number), of those that are among the rows. */
  assign(rows, hues) {
    const given = hues?.[this.by];
    if (!given) return;
    const groups = new Set([...rows].map((row) => this.group(row)));
    this.given = new Map(Object.entries(given).filter(([group]) => groups.has(group)));
    this.others = groups.size > this.given.size;
  }

  group(row) {
    return row[COLOR_BY[this.by]] ?? UNKNOWN;
  }

  /** The number of a row's colour at a time (epoch seconds); -1 is "others". */
  of(row, now) {
    if (this.by === "movable") return this.movable.findIndex(([key]) => key === row.movable);
    if (this.by !== "age") return this.given.get(this.group(row)) ?? -1;
    return row.born == null ? -1 : this.ages.findIndex(([limit]) => limit == null || now - row.born < limit);
  }

  /** Colours by number; -1 is the last. */
  palette(dark) {
    const ground = groundOf(dark);
    const hues = HUES[ground];
    if (this.by === "age") return [...AGES[ground], OTHER[ground]];
    if (this.by === "movable") return [hues[1], hues[0], OTHER[ground], OTHER[ground]];
    return [...hues, OTHER[ground]];
  }

  /** {color, label} of each. */
  legend(dark) {
    const colors = this.palette(dark);
    const fixed = this.by === "age" ? this.ages : this.by === "movable" ? this.movable : null;
    if (fixed) return fixed.map(([, label], i) => ({ color: colors[i], label }));
    const entries = [...this.given].sort((a, b) => a[1] - b[1]);
    const legend = entries.map(([label, hue]) => ({ color: colors[hue], label }));
    return this.others ? [...legend, { color: colors.at(-1), label: "others" }] : legend;
  }
}
