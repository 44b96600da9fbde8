// The view of why objects are still here: a table, a filter by reason, one object in full.

import { age, bytes, count, counted, UNKNOWN } from "./format.js";
import { figureColumn, objectColumn, TYPE_COLUMN } from "./columns.js";
import { h, inline, pane, setAttr, setChildren, setDash, setText } from "./dom.js";
import { Details } from "./details.js";
import { Table } from "./table.js";
import { pinKey } from "./store.js";

/**
 * What the chips say: {reason, words, text, here} of each reason. `reasons` are the kernel's words for one
 * pin of a reason and for several; the text of each pin is longer.
 */
export function chips(pins, reasons) {
  const groups = new Map();
  for (const pin of pins) groups.set(pin.reason, [...(groups.get(pin.reason) ?? []), pin]);
  return [...groups].map(([reason, same]) => {
    const [one, several] = reasons[reason] ?? [reason, reason];
    const number = same.reduce((sum, { n = 1 }) => sum + n, 0);
    const words = number === 1 || several === one ? one : `${count(number)} ${several}`;
    return { reason, words, text: same.map((pin) => pin.text).join("\n"), here: same.some((p) => p.here) };
  });
}

export class Pins {
  constructor(session) {
    this.session = session;
    this.reason = "";
    this.needle = "";
    const { store } = session;
    this.table = new Table({
      kind: "pins",
      label: "Objects and what pins them",
      empty: "",
      sort: "size",
      columns: [
        objectColumn(),
        TYPE_COLUMN,
        figureColumn("size", "Size", bytes),
        { key: "movable", title: "Can move", value: (row) => row.movable, fill: fillMovable },
        {
          key: "reasons",
          title: "Why it is here",
          value: (row) => row.pins?.length || null,
          width: (row) => this.widthOf(row),
          fill: (cell, row) => this.fillChips(cell, row),
        },
        {
          ...figureColumn("born", "Age", (born) => age(store.now() - born)),
          key: "age",
          ticks: true,
          value: (row) => (row.born == null ? null : -row.born),
        },
      ],
      onselect: (id) => session.select(id),
      mark: (row) => (store.vanished.has(row.id) ? "wb-gone" : store.fresh.has(row.id) ? "wb-fresh" : ""),
    });
    this.details = new Details(session);
    this.sum = inline("wb-sum");
    this.rest = inline("wb-rest");
    const search = h("input", {
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
    this.choice = h("select", {
      class: "wb-select",
      "aria-label": "Filter by reason",
      onchange: ({ target }) => {
        this.reason = target.value;
        this.filter();
      },
    });
    const tools = h("div", { class: "wb-tools" }, search, this.choice, this.sum, this.rest);
    this.el = pane("wb-pins", "Pins", tools, this.table.el, this.details.el);
  }

  /** Pixels that the chips of a row take, about. */
  widthOf(row) {
    const { reasons } = this.session.store.world.words;
    const codes = new Set((row.pins ?? []).map(({ reason }) => reason));
    return [...codes].reduce((sum, code) => sum + 6.2 * (reasons[code]?.[0].length ?? 8) + 28, 0);
  }

  seek({ value }) {
    this.needle = value.trim().toLowerCase();
    this.filter();
  }

  filter() {
    const { needle, reason } = this;
    this.table.filter((row) => {
      const pins = row.pins ?? [];
      if (reason && !pins.some((pin) => pin.reason === reason)) return false;
      if (!needle) return true;
      const texts = [row.title, row.held, row.kind, row.detail, ...pins.map((pin) => pin.text)];
      return texts.some((text) => text?.toLowerCase().includes(needle));
    });
    this.count();
  }

  update({ everything, objects, keys }) {
    const { store } = this.session;
    const { world } = store;
    if (everything) {
      this.table.options.empty = world.words.none.objects;
      const reasons = Object.entries(world.words.reasons);
      setChildren(this.choice, JSON.stringify(reasons), () =>
        [["", ["any reason"]], ...reasons].map(([value, [label]]) =>
          h("option", { value, selected: value === this.reason }, label),
        ),
      );
    }
    if (everything || keys.has("objects") || keys.has("marks")) {
      // A mark that came or ended changes the row's chips, though the row is the same.
      this.table.forget(objects);
      this.table.update([...world.objects.values(), ...[...store.vanished.values()].map(({ row }) => row)]);
      this.count();
    }
    if (everything || keys.has("selected")) this.table.select(store.selected);
    if (everything || keys.has("rest")) this.others(world.rest ?? []);
    const focused = this.details.el.contains(document.activeElement);
    this.details.update();
    // Its buttons are of no use any more.
    if (focused && !world.objects.has(store.selected)) this.table.focus();
  }

  count() {
    const { shown, rows } = this.table;
    const all = shown.length === rows.length;
    setText(this.sum, all ? counted(rows.length, "object") : `${count(shown.length)} of ${count(rows.length)}`);
  }

  /** Those that aren't listed. */
  others(rest) {
    const sum = (key) => rest.reduce((all, kind) => all + (kind[key] ?? 0), 0);
    setText(this.rest, sum("count") ? `and ${count(sum("count"))} smaller, ${bytes(sum("bytes"))}` : "");
    const each = rest.map((kind) => `${counted(kind.count, kind.kind, kind.kind)}, ${bytes(kind.bytes)}`);
    setAttr(this.rest, "title", each.join("\n") || null);
  }

  tick() {
    this.table.tick();
    this.details.tick();
  }

  measure() {
    this.table.measure();
  }

  fillChips(cell, row) {
    const { world, pins: marked } = this.session.store;
    const marks = [...(marked.get(row.id)?.values() ?? [])];
    const left = marks.filter(({ fresh }) => !fresh).map(({ pin }) => pin);
    const fresh = new Set(marks.filter((mark) => mark.fresh).map(({ pin }) => pinKey(pin)));
    const came = new Set((row.pins ?? []).filter((pin) => fresh.has(pinKey(pin))).map(({ reason }) => reason));
    const { reasons } = world.words;
    const all = [
      ...chips(row.pins ?? [], reasons).map((chip) => ({ ...chip, mark: came.has(chip.reason) ? "wb-fresh" : "" })),
      ...chips(left, reasons).map((chip) => ({ ...chip, mark: "wb-gone" })),
    ];
    setChildren(cell, row.pins ? JSON.stringify(all) : UNKNOWN, () => {
      if (!all.length) return [inline("wb-none", row.pins ? "nothing" : UNKNOWN)];
      return all.map(({ reason, words, text, here, mark }) =>
        h("span", { class: `wb-chip wb-r-${reason} ${here ? "wb-is-here" : ""} ${mark}`, title: text }, words),
      );
    });
  }
}

function fillMovable(cell, row) {
  if (row.movable == null) setDash(cell, UNKNOWN);
  else setText(cell, row.movable);
  setAttr(cell, "data-movable", row.movable);
  setAttr(cell, "title", row.stays || null);
}
