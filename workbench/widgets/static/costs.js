// The view of what serialization costs: per object and per type, and the cost tree of one object.

import { bytes, count, share, rate, seconds, UNKNOWN } from "./format.js";
import { button, h, inline, pane, radios, setAttr, setChildren, setDash, setText, setVar } from "./dom.js";
import { figureColumn, objectColumn, TYPE_COLUMN } from "./columns.js";
import { CostTree } from "./tree.js";
import { Selected } from "./details.js";
import { Table } from "./table.js";

/** Bytes a second of copying; null where that can't be told: below `least` bytes time says nothing. */
export function copySpeed({ inband, outband, copy }, least) {
  const moved = (inband ?? 0) + (outband ?? 0);
  return copy && moved >= least ? moved / copy : null;
}

const SUMMED = ["pickle", "copy", "load", "inband", "outband"];
/** A part of the machine's copy speed below which a copy was slow. */
const FAR_BELOW = 0.6;

/** Seconds of it all, as far as they are known: what costs are sorted by. */
export function totalOf({ pickle, copy, load }) {
  const known = [pickle, copy, load].filter((time) => time != null);
  return known.length ? known.reduce((sum, time) => sum + time, 0) : null;
}

/** Sums per type, with figures null where none is known. */
export function byType(rows) {
  const types = new Map();
  for (const { kind, repeats, ...row } of rows) {
    const type = types.get(kind) ?? { id: `type ${kind}`, kind, detail: "", count: 0, repeats: 0 };
    types.set(kind, type);
    type.count += 1;
    type.repeats += repeats ?? 0;
    for (const key of SUMMED) type[key] = row[key] == null ? (type[key] ?? null) : (type[key] ?? 0) + row[key];
  }
  return [...types.values()];
}

/** A speed in words, beside the machine's; and why it is so low, if that is far more. */
export function speedWords(speed, { cold }, { speed: limit, words }) {
  if (!limit) return rate(speed);
  const why = cold && speed < limit * FAR_BELOW ? `; ${words.cold}` : "";
  return `${rate(speed)}, ${share(speed / limit)} of this machine's copy speed${why}`;
}

/** Whether anything is known of what it cost. */
const measured = (row) => row.pickle != null || row.copy != null;

export class Costs {
  constructor(session) {
    this.session = session;
    const figures = [
      {
        ...figureColumn("total", "Total", seconds),
        value: totalOf,
        fill: (cell, row) => setText(cell, seconds(totalOf(row))),
      },
      figureColumn("pickle", "Pickle", seconds),
      figureColumn("copy", "Copy", seconds),
      figureColumn("load", "Load", seconds, `not read yet, or ${UNKNOWN}`),
      figureColumn("inband", "Pickled", bytes),
      figureColumn("outband", "Copied directly", bytes),
      {
        key: "speed",
        title: "Copy speed",
        right: true,
        value: (row) => this.speedOf(row),
        fill: (cell, row) => this.fillSpeed(cell, row),
      },
    ];
    this.objects = new Table({
      kind: "costs",
      label: "Serialization cost by object",
      empty: "",
      sort: "total",
      columns: [objectColumn((row) => this.badge(row)), TYPE_COLUMN, ...figures],
      onselect: (id) => session.select(id),
      onopen: () => this.detail.explain(),
    });
    this.types = new Table({
      kind: "types",
      label: "Serialization cost by type",
      empty: "",
      sort: "total",
      columns: [TYPE_COLUMN, figureColumn("count", "Objects", count), ...figures],
      onselect: (id) => this.types.select(id),
    });
    this.types.el.hidden = true;
    this.speed = inline("wb-rest");
    const by = radios("Cost per", ["object", "type"], (choice) => this.switchTo(choice));
    this.detail = new Cost(session, this);
    const tools = h("div", { class: "wb-tools" }, by, this.speed);
    this.el = pane("wb-costs", "Costs", tools, this.objects.el, this.types.el, this.detail.el);
  }

  switchTo(choice) {
    this.objects.el.hidden = choice !== "object";
    this.types.el.hidden = choice === "object";
    this.fill();
  }

  fill() {
    const { objects, words } = this.session.store.world;
    const rows = [...objects.values()].filter(measured);
    for (const table of [this.objects, this.types]) table.options.empty = words.none.costs;
    if (this.types.el.hidden) this.objects.update(rows);
    else this.types.update(byType(rows));
  }

  update({ everything, keys }) {
    const { store } = this.session;
    if (everything || keys.has("speed")) {
      const known = store.world.speed;
      const words = known ? "this machine copies at" : "how fast this machine copies:";
      setText(this.speed, `${words} ${rate(known ?? null)}`);
      for (const table of [this.objects, this.types]) table.forget(); // their cells compare with it
    }
    if (everything || keys.has("objects") || keys.has("speed")) this.fill();
    if (everything || keys.has("selected")) this.objects.select(store.selected);
    this.detail.update();
  }

  measure() {
    this.objects.measure();
    this.types.measure();
  }

  /** Bytes a second of its copying. */
  speedOf(row) {
    return copySpeed(row, this.session.store.world.words.least);
  }

  /** The same in words, beside what this machine can do. */
  speedText(speed, row) {
    return speedWords(speed, row, this.session.store.world);
  }

  /** What to do about an object that was serialized so often. */
  advice({ repeats }) {
    return this.session.store.world.words.repeats.replace("{}", count(repeats));
  }

  badge(row) {
    return row.repeats && h("span", { class: "wb-chip wb-warn", title: this.advice(row) }, `${count(row.repeats)} ×`);
  }

  fillSpeed(cell, row) {
    const speed = this.speedOf(row);
    const limit = this.session.store.world.speed;
    setAttr(cell, "title", speed == null ? null : this.speedText(speed, row));
    if (speed == null) {
      setDash(cell, `too little to tell, or ${UNKNOWN}`);
      return;
    }
    setChildren(cell, `${rate(speed)} ${limit}`, () => {
      const meter = h("span", { class: "wb-meter", "aria-hidden": "true", hidden: !limit });
      setVar(meter, "--wb-share", String(limit ? Math.min(speed / limit, 1) : 0));
      return [meter, inline("wb-rate", rate(speed))];
    });
  }
}

/** What the selected object's serialization cost; asked for, path by path. */
class Cost extends Selected {
  constructor(session, costs) {
    super(session, "Its cost", "costs");
    this.costs = costs;
    this.repeats = h("p", { class: "wb-repeats", hidden: true });
    this.tree = new CostTree();
    this.full.append(this.repeats, this.tree.el, this.cant);
    this.button = button("Explain", () => this.explain());
    this.bar.prepend(this.button);
  }

  update() {
    const { store } = this.session;
    const row = this.show(() => {
      this.tree.show({ tree: null, advice: [] });
      setText(this.note, "");
    });
    this.bar.hidden = row == null;
    if (!row) return;
    this.allow(this.button, "cost", row.movable === "freed" ? "It is freed: nobody can read it any more" : "");
    this.tellCant("cost");
    const speed = this.costs.speedOf(row);
    const facts = [
      `pickle ${seconds(row.pickle)}`,
      `copy ${seconds(row.copy)}`,
      row.load == null ? "not read yet" : `load ${seconds(row.load)}`,
      row.buffers ? `${count(row.buffers)} copied directly` : "",
      speed == null ? "" : this.costs.speedText(speed, row),
      row.site,
    ];
    setText(this.facts, facts.filter(Boolean).join(" · "));
    this.repeats.hidden = !row.repeats;
    if (row.repeats) setText(this.repeats, this.costs.advice(row));
  }

  explain() {
    const { store } = this.session;
    if (!store.row()) return;
    this.update(); // an answer may be here before the next frame
    if (this.button.disabled || this.button.hidden) return;
    this.ask("cost", (answer) => {
      if (!answer.tree) return;
      setText(this.note, "");
      this.tree.show(answer);
    });
  }
}
