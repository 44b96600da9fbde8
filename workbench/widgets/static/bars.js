// Bars to scale: the store's capacity, the machine's memory. Knows figures, no objects.

import { bytes, percent, UNKNOWN } from "./format.js";
import { h, setAttr, setChildren, setText, setVar } from "./dom.js";

/**
 * @typedef {object} Part
 * @property {string} name also its class, `wb-p-name`
 * @property {string} label
 * @property {number|null} bytes null: not known here
 * @property {string} title what it means
 */

/** A bar of parts with a key below. Each part keeps its element: widths glide. */
class Bar {
  /** @param {string} label */
  constructor(label) {
    this.label = h("span", { class: "wb-bar-label" }, label);
    this.figure = h("span", { class: "wb-bar-figure" });
    this.track = h("div", { class: "wb-track", role: "img" });
    this.key = h("ul", { class: "wb-key" });
    this.el = h(
      "div",
      { class: "wb-bar" },
      h("div", { class: "wb-bar-head" }, this.label, this.figure),
      this.track,
      this.key,
    );
    this.parts = new Map();
  }

  /**
   * @param {string} figure
   * @param {Part[]} parts
   * @param {boolean} whole whether it is known what they add up to: else nothing is drawn to scale
   * @returns {void}
   */
  update(figure, parts, whole) {
    setText(this.figure, figure);
    const total = whole ? parts.reduce((sum, part) => sum + Math.max(part.bytes ?? 0, 0), 0) : 0;
    const wanted = parts.map(({ name }) => name).join();
    if (setChildren(this.track, wanted, () => parts.map((part) => this.part(part)))) {
      this.key.replaceChildren(...parts.map(({ name }) => this.parts.get(name).entry));
    }
    for (const part of parts) {
      const { piece, value } = this.parts.get(part.name);
      piece.classList.toggle("wb-zero", !total || !part.bytes);
      setVar(piece, "--wb-share", total ? String(Math.max(part.bytes ?? 0, 0) / total) : "0");
      setText(value, bytes(part.bytes));
    }
    const said = parts.map((part) => `${part.label} ${bytes(part.bytes)}`).join(", ");
    setAttr(this.track, "aria-label", `${this.label.textContent}: ${figure}; ${said}`);
  }

  /** @private */
  part({ name, label, title }) {
    const piece = h("span", { class: `wb-piece wb-p-${name}`, title });
    const value = h("span", { class: "wb-value" });
    const swatch = h("span", { class: `wb-swatch wb-p-${name}`, "aria-hidden": "true" });
    const entry = h("li", { title }, swatch, h("span", {}, label), " ", value);
    this.parts.set(name, { piece, value, entry });
    return piece;
  }
}

/** The two bars of the occupancy view. */
export class Bars {
  constructor() {
    this.store = new Bar("Store");
    this.machine = new Bar("This machine");
    this.el = h("div", { class: "wb-bars" }, this.store.el, this.machine.el);
  }

  /** @param {object} totals as in the contract @returns {void} */
  update(totals) {
    const { capacity, live, warm, available, spilled, inline } = totals;
    const share = capacity ? ` · ${percent((live ?? 0) / capacity)}` : "";
    const of = capacity == null ? `capacity ${UNKNOWN}` : `of ${bytes(capacity)}${share}`;
    this.store.update(live == null && capacity == null ? UNKNOWN : `${bytes(live)} ${of}`, [
      { name: "live", label: "live", bytes: live, title: "Bytes of objects in shared memory" },
      {
        name: "warm",
        label: "free, warm",
        bytes: warm,
        title: "Freed and kept: written again faster than untouched memory",
      },
      { name: "available", label: "available", bytes: available, title: "Not touched yet" },
      {
        name: "spilled",
        label: "on disk",
        bytes: spilled,
        title: "Spilled: read from a file, beside the capacity",
      },
    ], capacity != null);
    this.store.el.title = inline ? `${bytes(inline)} of small objects travel in messages` : "";
    const machine = totals.machine ?? {};
    const store = live == null ? null : live + (warm ?? 0);
    const ours = (store ?? 0) + (totals.workers ?? 0) + (totals.kernels ?? 0);
    const used = machine.total == null ? null : machine.total - (machine.available ?? 0);
    setText(this.machine.label, machine.what === "container" ? "This container" : "This machine");
    this.machine.update(
      machine.total == null ? UNKNOWN : `${bytes(used)} of ${bytes(machine.total)}`,
      [
        { name: "store", label: "store", bytes: store, title: "Live and warm memory of the store" },
        { name: "workers", label: "workers", bytes: totals.workers, title: "Workers' own memory" },
        {
          name: "kernels",
          label: "notebooks",
          bytes: totals.kernels,
          title: "Own memory of notebooks and scripts",
        },
        {
          name: "others",
          label: "others", // and what of ours isn't known
          bytes: used == null ? null : Math.max(used - ours, 0),
          title: "All else that runs here",
        },
        { name: "free", label: "available", bytes: machine.available, title: "For anyone" },
      ],
      machine.total != null,
    );
  }
}
