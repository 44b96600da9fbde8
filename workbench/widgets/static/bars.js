// Bars to scale, as the kernel words them: the store's capacity, the machine's memory.

import { bytes, UNKNOWN } from "./format.js";
import { h, inline, setAttr, setChildren, setDash, setText, setVar } from "./dom.js";

/** A bar of parts with a key below. Each part keeps its element: widths glide. */
export class Bar {
  constructor() {
    this.label = inline("wb-bar-label");
    this.figure = inline("wb-bar-figure");
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

  /** What the contract has of it, with the parts' words: name → [label, what it means]. */
  update({ label, figure, note, whole, parts, beside }, words) {
    setText(this.label, label);
    setText(this.figure, figure);
    setAttr(this.el, "title", note || null);
    // Without a whole nothing can be drawn to scale.
    const total = whole ? parts.reduce((sum, [, size]) => sum + Math.max(size ?? 0, 0), 0) : 0;
    const told = [...parts, ...beside]; // what is beside it has an entry in the key alone
    const pieces = () => told.map(([name]) => this.part(name, ...words[name])).slice(0, parts.length);
    if (setChildren(this.track, told.map(([name]) => name).join(), pieces)) {
      this.key.replaceChildren(...told.map(([name]) => this.parts.get(name).entry));
    }
    for (const [name, size] of told) {
      const { piece, value } = this.parts.get(name);
      piece.classList.toggle("wb-zero", !total || !size);
      setVar(piece, "--wb-share", total ? String(Math.max(size ?? 0, 0) / total) : "0");
      if (size == null) setDash(value, UNKNOWN);
      else setText(value, bytes(size));
    }
    const said = told.map(([name, size]) => `${words[name][0]} ${bytes(size)}`).join(", ");
    setAttr(this.track, "aria-label", `${label}: ${figure}; ${said}`);
  }

  part(name, label, title) {
    const piece = h("span", { class: `wb-piece wb-p-${name}`, title });
    const value = inline("wb-value");
    const swatch = h("span", { class: `wb-swatch wb-p-${name}`, "aria-hidden": "true" });
    const entry = h("li", { title }, swatch, h("span", {}, label), " ", value);
    this.parts.set(name, { piece, value, entry });
    return piece;
  }
}
