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
const AGE_LIMITS = [
  [10, "under 10 s"],
  [60, "under 1 min"],
  [600, "under 10 min"],
  [3600, "under 1 h"],
  [Infinity, "older"],
];
const STRENGTHS = ["resident", "alive", "freed"];
const STRENGTH_WORDS = {
  resident: "resident: can't move",
  alive: "alive: may move to disk",
  freed: "freed, still shown",
};

/** What objects can be coloured by. */
export const COLOR_BY = ["type", "owner", "age", "strength"];

/** What isn't an object: parts of bars, lines of the timeline, states. Style sheets get them by name. */
export const SIGNALS = {
  light: {
    live: "#0072b2",
    spilled: "#b3640a",
    workers: "#00805f",
    kernels: "#a34f80",
    good: "#00805f",
    bad: "#c02626",
    busy: "#0072b2",
  },
  dark: {
    live: "#4fa3e0",
    spilled: "#e8a317",
    workers: "#2cb68c",
    kernels: "#d98cb8",
    good: "#2cb68c",
    bad: "#ff8a80",
    busy: "#4fa3e0",
  },
};

/**
 * @param {string} color "#rrggbb", or "rgb(…)", "rgba(…)" or "color(srgb …)" as a browser computes it
 * @returns {boolean} whether it is a dark ground
 */
export function isDark(color) {
  if (color.startsWith("#")) {
    return isDark(`rgb(${[1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16))})`);
  }
  const parts = color.match(/[\d.]+(?:e-?\d+)?/g)?.map(Number) ?? [255, 255, 255];
  const unit = color.startsWith("color(") ? 1 : 255;
  const [r, g, b] = parts.map((part) => part / unit);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.5;
}

/** Which of an object's sides is coloured, and who got which colour. A colour once given is kept. */
export class Coloring {
  /** @param {string} by one of COLOR_BY */
  constructor(by) {
    this.by = by;
    this.given = new Map();
  }

  /**
   * Gives the hues to whoever has most bytes; first come, first kept.
   * @param {Iterable<object>} rows
   * @returns {void}
   */
  assign(rows) {
    if (this.by !== "type" && this.by !== "owner") return;
    const weights = new Map();
    for (const row of rows) {
      const group = this.by === "type" ? row.kind : row.owner;
      weights.set(group, (weights.get(group) ?? 0) + (row.size ?? 0));
    }
    for (const group of this.given.keys()) {
      if (!weights.has(group) && this.given.size >= HUES.light.length) this.given.delete(group);
    }
    const taken = new Set(this.given.values());
    const free = HUES.light.map((_, hue) => hue).filter((hue) => !taken.has(hue));
    const heaviest = [...weights].sort((a, b) => b[1] - a[1]);
    for (const [group] of heaviest) {
      if (!this.given.has(group) && free.length) this.given.set(group, free.shift());
    }
    this.others = heaviest.length > this.given.size;
  }

  /**
   * @param {object} row
   * @param {number} now epoch seconds
   * @returns {number} the colour's number; -1 is "others"
   */
  of(row, now) {
    if (this.by === "type") return this.given.get(row.kind) ?? -1;
    if (this.by === "owner") return this.given.get(row.owner) ?? -1;
    if (this.by === "strength") return STRENGTHS.indexOf(row.strength);
    return row.born == null ? -1 : AGE_LIMITS.findIndex(([limit]) => now - row.born < limit);
  }

  /** @param {boolean} dark @returns {string[]} colours by number; -1 is the last */
  palette(dark) {
    const ground = dark ? "dark" : "light";
    const hues = HUES[ground];
    if (this.by === "age") return [...AGES[ground], OTHER[ground]];
    if (this.by === "strength") return [hues[1], hues[0], OTHER[ground], OTHER[ground]];
    return [...hues, OTHER[ground]];
  }

  /** @param {boolean} dark @returns {{color: string, label: string}[]} */
  legend(dark) {
    const colors = this.palette(dark);
    if (this.by === "age") return AGE_LIMITS.map(([, label], i) => ({ color: colors[i], label }));
    if (this.by === "strength") {
      return STRENGTHS.map((name, i) => ({ color: colors[i], label: STRENGTH_WORDS[name] }));
    }
    const entries = [...this.given].sort((a, b) => a[1] - b[1]);
    const legend = entries.map(([label, hue]) => ({ color: colors[hue], label: label ?? UNKNOWN }));
    return this.others ? [...legend, { color: colors.at(-1), label: "others" }] : legend;
  }
}
