// The view of why objects are still here: a table, a filter by reason, one object in full.

import { age, bytes, count, counted, title, typed, UNKNOWN } from "./format.js";
import { h, setAttr, setChildren, setDash, setText } from "./dom.js";
import { Details } from "./details.js";
import { Table } from "./table.js";
import { pinKey } from "./store.js";

/** Reasons as chips: one, several. The text of each pin is longer. */
const CHIPS = {
  name: ["named", "named"],
  user: ["pinned", "pinned"],
  job: ["background cell", "background cells"],
  ref: ["ref", "refs"],
  task: ["task", "tasks"],
  contained: ["inside another", "inside others"],
  escaped: ["pickled ref", "pickled refs"],
  view: ["arrays", "arrays"],
};

/**
 * What the chips say.
 * @param {object[]} pins
 * @returns {{reason: string, words: string, text: string, here: boolean}[]}
 */
export function chips(pins) {
  const groups = new Map();
  for (const pin of pins) {
    if (groups.has(pin.reason)) groups.get(pin.reason).push(pin);
    else groups.set(pin.reason, [pin]);
  }
  return [...groups].map(([reason, same]) => {
    const [one, several] = CHIPS[reason] ?? [reason, reason];
    const numbered = same.length > 1 && one !== several ? `${same.length} ` : "";
    const words = same.length > 1 ? `${numbered}${several}` : one;
    return { reason, words, text: same.map((pin) => pin.text).join("\n"), here: same.some((p) => p.here) };
  });
}

const NO_OBJECTS = "No objects. %put makes one.";

export class Pins {
  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    this.reason = "";
    this.needle = "";
    const { store } = session;
    this.table = new Table({
      kind: "pins",
      label: "Objects and what pins them",
      empty: NO_OBJECTS,
      sort: "size",
      columns: [
        { key: "object", title: "Object", value: (row) => title(row).toLowerCase(), fill: fillObject },
        { key: "type", title: "Type", value: (row) => row.kind, fill: fillType },
        {
          key: "size",
          title: "Size",
          right: true,
          value: (row) => row.size,
          fill: (cell, row) => (row.size == null ? setDash(cell, UNKNOWN) : setText(cell, bytes(row.size))),
        },
        { key: "strength", title: "Strength", value: (row) => row.strength, fill: fillStrength },
        {
          key: "reasons",
          title: "Why it is here",
          value: (row) => row.pins?.length || null,
          fill: (cell, row) => this.fillChips(cell, row),
        },
        {
          key: "age",
          title: "Age",
          right: true,
          ticks: true,
          value: (row) => (row.born == null ? null : -row.born),
          fill: (cell, row) => {
            if (row.born == null) setDash(cell, UNKNOWN);
            else setText(cell, age(store.now() - row.born));
          },
        },
      ],
      onselect: (id) => session.select(id),
      mark: (row) => (store.vanished.has(row.id) ? "wb-gone" : store.fresh.has(row.id) ? "wb-fresh" : ""),
    });
    this.details = new Details(session);
    this.sum = h("span", { class: "wb-sum" });
    this.rest = h("span", { class: "wb-rest" });
    this.el = h(
      "div",
      { class: "wb-pane wb-pins", role: "group", "aria-label": "Pins" },
      h("div", { class: "wb-tools" }, this.filterBox(), this.reasonBox(), this.sum, this.rest),
      this.table.el,
      this.details.el,
    );
  }

  /** @private */
  filterBox() {
    return h("input", {
      type: "search",
      class: "wb-search",
      placeholder: "Filter",
      "aria-label": "Filter by name, type or reason",
      oninput: ({ target }) => this.seek(target),
      onkeydown: ({ key, target }) => {
        if (key !== "Escape" || !target.value) return;
        target.value = ""; // where the browser doesn't do it itself
        this.seek(target);
      },
    });
  }

  /** @private */
  seek({ value }) {
    this.needle = value.trim().toLowerCase();
    this.filter();
  }

  /** @private */
  reasonBox() {
    const options = Object.entries(CHIPS).map(([value, [label]]) => h("option", { value }, label));
    return h(
      "select",
      {
        class: "wb-select",
        "aria-label": "Filter by reason",
        onchange: (event) => {
          this.reason = event.target.value;
          this.filter();
        },
      },
      h("option", { value: "" }, "any reason"),
      ...options,
    );
  }

  /** @private */
  filter() {
    const { needle, reason } = this;
    this.table.filter((row) => {
      const pins = row.pins ?? [];
      if (reason && !pins.some((pin) => pin.reason === reason)) return false;
      if (!needle) return true;
      const texts = [row.name, row.held, row.kind, row.detail, ...pins.map((pin) => pin.text)];
      return texts.some((text) => text?.toLowerCase().includes(needle));
    });
    this.count();
  }

  /** @param {import("./store.js").Change} change @returns {void} */
  update({ everything, objects, keys }) {
    const { store } = this.session;
    if (everything) this.table.options.empty = store.world.engine === "local" ? NO_OBJECTS : "No objects.";
    if (everything || keys.has("objects") || keys.has("marks")) {
      // A mark that came or ended changes the row's chips, though the row is the same.
      for (const id of objects) this.table.forget(id);
      this.table.update([...store.world.objects.values(), ...this.ghosts()]);
      this.count();
    }
    if (everything || keys.has("selected")) this.table.select(store.selected);
    if (everything || keys.has("rest")) this.others();
    const focused = this.details.el.contains(document.activeElement);
    this.details.update();
    // Its buttons are of no use any more.
    if (focused && !store.world.objects.has(store.selected)) this.table.focus();
  }

  /** @private */
  ghosts() {
    return [...this.session.store.vanished.values()].map(({ row }) => row);
  }

  /** @private */
  count() {
    const shown = this.table.shown.length;
    const all = this.table.rows.length;
    setText(this.sum, shown === all ? counted(all, "object") : `${count(shown)} of ${count(all)}`);
  }

  /** Those that aren't listed. @private */
  others() {
    const rest = this.session.store.world.rest ?? [];
    const number = rest.reduce((sum, kind) => sum + (kind.count ?? 0), 0);
    const together = rest.reduce((sum, kind) => sum + (kind.bytes ?? 0), 0);
    setText(this.rest, number ? `and ${count(number)} smaller, ${bytes(together)}` : "");
    const each = rest.map((kind) => `${counted(kind.count, kind.kind, kind.kind)}, ${bytes(kind.bytes)}`);
    setAttr(this.rest, "title", each.join("\n") || null);
  }

  /** Time went on. */
  tick() {
    this.table.tick();
    this.details.tick();
  }

  /** @returns {void} */
  measure() {
    this.table.measure();
  }

  /** @private */
  fillChips(cell, row) {
    const marks = this.session.store.pins.get(row.id);
    const left = marks ? [...marks.values()].filter(({ fresh }) => !fresh).map(({ pin }) => pin) : [];
    const pins = row.pins ?? [];
    const fresh = new Set(pins.filter((pin) => marks?.get(pinKey(pin))?.fresh).map((pin) => pin.reason));
    const now = chips(pins).map((chip) => ({ ...chip, mark: fresh.has(chip.reason) ? "wb-fresh" : "" }));
    const gone = chips(left).map((chip) => ({ ...chip, mark: "wb-gone" }));
    const all = [...now, ...gone];
    const key = all.map(({ words, text, mark, here }) => `${words}|${text}|${mark}|${here}`).join("\n");
    setChildren(cell, row.pins ? key : UNKNOWN, () => {
      if (!all.length) return [h("span", { class: "wb-none" }, row.pins ? "nothing" : UNKNOWN)];
      return all.map(({ reason, words, text, here, mark }) =>
        h("span", { class: `wb-chip wb-r-${reason} ${here ? "wb-is-here" : ""} ${mark}`, title: text }, words),
      );
    });
  }
}

function fillObject(cell, row) {
  setText(cell, title(row));
  nameCell(cell, row);
}

/** How the cell of an object's name looks. @param {HTMLElement} cell @param {object} row @returns {void} */
export function nameCell(cell, row) {
  cell.classList.toggle("wb-unnamed", !row.name);
  setAttr(cell, "title", [row.name, row.held && `held by ${row.held}`].filter(Boolean).join("\n") || row.id);
}

/** @param {HTMLElement} cell @param {object} row @returns {void} */
export function fillType(cell, row) {
  const text = typed(row);
  setChildren(cell, text, () => [row.kind ?? UNKNOWN, h("span", { class: "wb-dim" }, ` ${row.detail ?? ""}`)]);
  setAttr(cell, "title", text);
}

function fillStrength(cell, row) {
  if (row.strength == null) setDash(cell, UNKNOWN);
  else setText(cell, row.strength);
  setAttr(cell, "data-strength", row.strength);
}
