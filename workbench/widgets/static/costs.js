// The view of what serialization costs: per object and per type, and the cost tree of one object.

import { bytes, count, percent, rate, seconds, title, UNKNOWN } from "./format.js";
import { h, radios, setAttr, setChildren, setDash, setText, setVar } from "./dom.js";
import { CostTree } from "./tree.js";
import { Table } from "./table.js";
import { fillType, nameCell } from "./pins.js";

/** Below it, a copy's time says nothing about speed. */
const SPEED_BYTES = 100_000;

/** Bytes a second of an object's copying; null where that can't be told. @param {object} row @returns {number|null} */
export function copySpeed({ inband, outband, copy }) {
  const moved = (inband ?? 0) + (outband ?? 0);
  return copy && moved >= SPEED_BYTES ? moved / copy : null;
}

/** Sums per type, with figures null where none is known. @param {Iterable<object>} rows @returns {object[]} */
export function byType(rows) {
  const types = new Map();
  for (const row of rows) {
    let type = types.get(row.kind);
    if (!type) {
      type = { id: `type ${row.kind}`, kind: row.kind, detail: "", name: "", held: "", count: 0, repeats: 0 };
      for (const key of ["pickle", "copy", "load", "inband", "outband"]) type[key] = null;
      types.set(row.kind, type);
    }
    type.count += 1;
    type.repeats += row.repeats ?? 0;
    for (const key of ["pickle", "copy", "load", "inband", "outband"]) {
      if (row[key] != null) type[key] = (type[key] ?? 0) + row[key];
    }
  }
  return [...types.values()];
}

const NO_COSTS = "Nothing has been serialized yet.";
const NOT_READ = `not read yet, or ${UNKNOWN}`;

const figure = (key, name, words) => ({
  key,
  title: name,
  right: true,
  value: (row) => row[key],
  fill: (cell, row) => {
    if (row[key] == null) setDash(cell, key === "load" ? NOT_READ : UNKNOWN);
    else setChildren(cell, words(row[key]), () => [words(row[key])]);
  },
});

export class Costs {
  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    const figures = [
      figure("pickle", "Pickle", seconds),
      figure("copy", "Copy", seconds),
      figure("load", "Load", seconds),
      figure("inband", "In-band", bytes),
      figure("outband", "Out-of-band", bytes),
      {
        key: "speed",
        title: "Copy speed",
        right: true,
        value: copySpeed,
        fill: (cell, row) => this.fillSpeed(cell, row),
      },
    ];
    this.objects = new Table({
      kind: "costs",
      label: "Serialization cost by object",
      empty: NO_COSTS,
      sort: "pickle",
      columns: [
        {
          key: "object",
          title: "Object",
          value: (row) => title(row).toLowerCase(),
          fill: (cell, row) => this.fillMarked(cell, row),
        },
        { key: "type", title: "Type", value: (row) => row.kind, fill: fillType },
        ...figures,
      ],
      onselect: (id) => session.select(id),
      onopen: () => this.explain(),
    });
    this.types = new Table({
      kind: "types",
      label: "Serialization cost by type",
      empty: NO_COSTS,
      sort: "pickle",
      columns: [
        { key: "type", title: "Type", value: (row) => row.kind, fill: fillType },
        {
          key: "count",
          title: "Objects",
          right: true,
          value: (row) => row.count,
          fill: (cell, row) => setText(cell, count(row.count)),
        },
        ...figures,
      ],
      onselect: (id) => this.types.select(id),
    });
    this.types.el.hidden = true;
    this.tree = new CostTree();
    this.speed = h("span", { class: "wb-rest" });
    const by = radios("Cost per", ["object", "type"], (choice) => this.switchTo(choice));
    this.heading = h("span", { class: "wb-details-name" });
    this.facts = h("span", { class: "wb-details-facts" });
    this.repeats = h("p", { class: "wb-repeats", hidden: true });
    this.button = h("button", { type: "button", class: "wb-button", onclick: () => this.explain() }, "Explain");
    this.note = h("span", { class: "wb-note", role: "status" });
    this.hint = h("p", { class: "wb-empty" }, "Select an object to see what its serialization costs.");
    this.full = h(
      "div",
      { class: "wb-details-body", tabindex: 0, role: "group", "aria-label": "Its cost" },
      h("div", { class: "wb-details-head" }, this.heading, " ", this.facts),
      this.repeats,
      this.tree.el,
    );
    this.bar = h("div", { class: "wb-details-bar" }, this.button, this.note);
    this.el = h(
      "div",
      { class: "wb-pane wb-costs", role: "group", "aria-label": "Costs" },
      h("div", { class: "wb-tools" }, by, this.speed),
      this.objects.el,
      this.types.el,
      h("div", { class: "wb-details" }, this.hint, this.full, this.bar),
    );
  }

  /** @private */
  switchTo(choice) {
    this.objects.el.hidden = choice !== "object";
    this.types.el.hidden = choice === "object";
    this.fill();
  }

  /** @private */
  fill() {
    const { world } = this.session.store;
    const rows = [...world.objects.values()];
    // Other engines never tell it.
    const empty = world.engine === "local" ? NO_COSTS : "Not known here.";
    for (const table of [this.objects, this.types]) table.options.empty = empty;
    if (this.types.el.hidden) this.objects.update(rows.filter(measured));
    else this.types.update(byType(rows.filter(measured)));
  }

  /** @param {import("./store.js").Change} change @returns {void} */
  update({ everything, keys }) {
    const { store } = this.session;
    if (everything || keys.has("speed")) {
      const known = store.world.speed;
      setText(this.speed, known ? `this machine copies at ${rate(known)}` : `copy speed ${rate(null)}`);
    }
    if (everything || keys.has("objects") || keys.has("speed")) this.fill();
    if (everything || keys.has("selected")) this.objects.select(store.selected);
    this.detail();
  }

  /** @private */
  detail() {
    const { store } = this.session;
    const row = store.row();
    this.hint.hidden = row != null;
    this.full.hidden = this.bar.hidden = row == null;
    if (row?.id !== this.id) {
      this.id = row?.id;
      this.tree.show({ tree: null, advice: [] });
      setText(this.note, "");
    }
    if (!row) return;
    this.button.disabled = !store.usable || !store.world.objects.has(row.id);
    setText(this.heading, title(row));
    const speed = copySpeed(row);
    const facts = [
      `pickle ${seconds(row.pickle)}`,
      `copy ${seconds(row.copy)}`,
      row.load == null ? "not read yet" : `load ${seconds(row.load)}`,
      row.buffers ? `${count(row.buffers)} out-of-band` : "",
      speed == null ? "" : `${rate(speed)}${this.against(speed)}`,
      row.site,
    ];
    setText(this.facts, facts.filter(Boolean).join(" · "));
    this.repeats.hidden = !row.repeats;
    if (row.repeats) setText(this.repeats, `serialized ${count(row.repeats)} × here: put it once`);
  }

  /** @private */
  against(speed) {
    const limit = this.session.store.world.speed;
    return limit ? `, ${percent(speed / limit)} of this machine's copy speed` : "";
  }

  /** @private */
  explain() {
    const { id } = this.session.store.row() ?? {};
    if (!id || !this.session.store.usable) return;
    this.detail(); // an answer may be here before the next frame
    this.session.ask({ do: "cost", id }, ({ state, text, answer }) => {
      if (id !== this.id) return;
      setText(this.note, state === "done" && answer.tree ? "" : text);
      this.note.dataset.state = state;
      if (answer?.tree) this.tree.show(answer);
    });
  }

  /** Nothing here changes with time alone. */
  tick() {}

  /** @returns {void} */
  measure() {
    this.objects.measure();
    this.types.measure();
  }

  /** @private */
  fillMarked(cell, row) {
    if (!row.repeats) {
      setChildren(cell, title(row), () => [title(row)]);
      nameCell(cell, row);
      return;
    }
    const words = `serialized ${count(row.repeats)} × here: put it once`;
    setChildren(cell, title(row) + words, () => [
      h("span", { class: "wb-clip" }, title(row)),
      h("span", { class: "wb-chip wb-warn", title: words }, `${count(row.repeats)} ×`),
    ]);
    nameCell(cell, row);
  }

  /** @private */
  fillSpeed(cell, row) {
    const speed = copySpeed(row);
    const limit = this.session.store.world?.speed;
    if (speed == null) {
      setDash(cell, `too little to tell, or ${UNKNOWN}`);
      setAttr(cell, "title", null);
      return;
    }
    setChildren(cell, `${rate(speed)} ${limit}`, () => {
      const meter = h("span", { class: "wb-meter", "aria-hidden": "true" });
      setVar(meter, "--wb-share", String(limit ? Math.min(speed / limit, 1) : 0));
      meter.hidden = !limit;
      return [meter, h("span", { class: "wb-rate" }, rate(speed))];
    });
    setAttr(cell, "title", `${rate(speed)}${this.against(speed)}`);
  }
}

/** Whether anything is known of what it cost. */
function measured(row) {
  return row.pickle != null || row.copy != null;
}
