// The cost tree of one object: which path costs what, and what is advised. Walked by keys.

import { bytes, share, seconds } from "./format.js";
import { h, inline, setVar, taken } from "./dom.js";

/** So deep it is open at first, and wherever a share is large. */
const OPEN_DEPTH = 1;
const OPEN_SHARE = 0.25;

export class CostTree {
  constructor() {
    this.root = h("ul", { role: "tree", class: "wb-tree", "aria-label": "Cost by path" });
    this.advice = h("ul", { class: "wb-advice" });
    this.el = h("div", {}, this.advice, this.root);
    this.root.addEventListener("click", (event) => this.clicked(event));
    this.root.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** The kernel's answer, or one without a tree. */
  show({ tree, advice }) {
    this.root.replaceChildren(...(tree ? [this.item(tree, 1)] : []));
    this.advice.replaceChildren(...(advice ?? []).map((sentence) => h("li", {}, sentence)));
    this.root.hidden = !tree;
    this.root.firstElementChild?.setAttribute("tabindex", "0");
  }

  item(node, level) {
    const children = node.children ?? [];
    const open = children.length > 0 && (level <= OPEN_DEPTH || node.share >= OPEN_SHARE);
    const meter = h("span", { class: "wb-meter", "aria-hidden": "true" });
    setVar(meter, "--wb-share", String(Math.min(node.share ?? 0, 1)));
    const figures = [share(node.share), bytes(node.bytes), seconds(node.seconds)];
    const line = h(
      "div",
      { class: "wb-tree-line" },
      h("span", { class: "wb-twist", "aria-hidden": "true" }),
      inline("wb-tree-name", node.name || "the object"),
      inline("wb-tree-type", node.type ?? ""),
      meter,
      ...figures.map((figure) => inline("wb-tree-figure", figure)),
    );
    line.style.setProperty("--wb-level", level - 1);
    const expanded = children.length ? String(open) : null;
    const item = h(
      "li",
      { role: "treeitem", tabindex: -1, "aria-level": level, "aria-expanded": expanded },
      line,
      ...(node.advice ?? []).map((sentence) => h("p", { class: "wb-tree-note" }, sentence)),
    );
    item.wbGrow = () => {
      if (!children.length || item.wbGroup) return;
      item.wbGroup = h("ul", { role: "group" }, ...children.map((child) => this.item(child, level + 1)));
      item.append(item.wbGroup);
    };
    if (open) item.wbGrow();
    return item;
  }

  fold(item, open) {
    if (!item.hasAttribute("aria-expanded")) return;
    if (open) item.wbGrow();
    item.setAttribute("aria-expanded", String(open));
  }

  clicked(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    if (event.target.closest(".wb-tree-line")) this.fold(item, item.getAttribute("aria-expanded") !== "true");
    this.focus(item);
  }

  focus(item) {
    if (!item) return;
    this.root.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    item.setAttribute("tabindex", "0");
    item.focus();
  }

  pressed(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    const seen = [...this.root.querySelectorAll("[role=treeitem]")].filter(
      (each) => !each.parentElement.closest("[aria-expanded=false]"),
    );
    const at = seen.indexOf(item);
    const open = item.getAttribute("aria-expanded") === "true";
    const toggle = () => this.fold(item, !open);
    const acts = {
      ArrowDown: () => this.focus(seen[at + 1]),
      ArrowUp: () => this.focus(seen[at - 1]),
      Home: () => this.focus(seen[0]),
      End: () => this.focus(seen.at(-1)),
      ArrowRight: () => (open ? this.focus(seen[at + 1]) : this.fold(item, true)),
      ArrowLeft: () =>
        open ? this.fold(item, false) : this.focus(item.parentElement.closest("[role=treeitem]")),
      Enter: toggle,
      " ": toggle,
    };
    if (!acts[event.key]) return;
    acts[event.key]();
    taken(event);
  }
}
