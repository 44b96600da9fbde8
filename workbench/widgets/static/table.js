// A grid of rows: sorted, filtered, drawn only where it is looked at, walked by keys. Knows columns
// and ids; what stands in the cells is its owner's.

import { dropAllBut, h, setAttr, setText, setVar, taken } from "./dom.js";

/** Up to so many rows all are in the page: found by its search, read by screen readers. */
const WHOLE = 200;
const OVERSCAN = 8;
const ROW_HEIGHT = 26;
/** Columns are as wide as what stands in them, in steps, so that they seldom move; at most so many pixels. */
const STEP = 24;
const WIDEST = 420;
const PADDING = 18;
/** Of a pane that hasn't been measured. */
const HEIGHT = 260;

/**
 * @typedef {object} Column
 * @property {string} key also the cells' class, `wb-c-key`
 * @property {string} title
 * @property {(row: object) => string|number|null} value what it is sorted by; null goes last
 * @property {(cell: HTMLElement, row: object) => void} fill
 * @property {(row: object) => number} [width] pixels of what stands there, about, if the column is as wide as that
 * @property {boolean} [right] flush right: figures, which are sorted from the largest first
 * @property {boolean} [ticks] changes with time alone
 */

const cellClass = (column) => `wb-c-${column.key}${column.right ? " wb-right" : ""}`;

export class Table {
  /**
   * @param {{label: string, columns: Column[], sort: string, empty: string, kind: string,
   *   onselect: (id: string) => void, onopen?: (id: string) => void,
   *   mark?: (row: object) => string}} options `mark` gives a row's class of the moment
   */
  constructor(options) {
    this.options = options;
    this.rows = [];
    this.shown = [];
    this.order = new Map();
    this.nodes = new Map();
    this.current = "";
    this.selected = "";
    const column = options.columns.find(({ key }) => key === options.sort);
    this.sort = { column, down: Boolean(column.right) };
    this.accepts = () => true;
    // As last read: asking in the middle of writing would make the browser lay out at once.
    this.high = HEIGHT;
    this.top = 0;
    this.widths = new Map(options.columns.filter(({ width }) => width).map((each) => [each, new WeakMap()]));
    this.heads = new Map(options.columns.map((each) => [each, this.head(each)]));
    this.body = h("tbody", { role: "rowgroup" });
    this.table = h(
      "table",
      { role: "grid", class: `wb-table wb-${options.kind}-table`, "aria-label": options.label },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row", "aria-rowindex": 1 }, ...this.heads.values())),
      this.body,
    );
    this.note = h("p", { class: "wb-empty" }, options.empty);
    this.el = h("div", { class: "wb-scroll" }, this.table, this.note);
    this.el.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    this.sorted();
  }

  head(column) {
    const sort = h("button", { type: "button", onclick: () => this.sortBy(column) }, column.title);
    return h("th", { role: "columnheader", scope: "col", class: cellClass(column) }, sort);
  }

  sortBy(column) {
    const again = this.sort.column === column;
    this.sort = { column, down: again ? !this.sort.down : Boolean(column.right) };
    this.sorted();
    this.arrange();
  }

  sorted() {
    const way = this.sort.down ? "descending" : "ascending";
    for (const [column, cell] of this.heads) {
      setAttr(cell, "aria-sort", column === this.sort.column ? way : "none");
    }
  }

  /** Shows the rows that a predicate accepts. */
  filter(accepts) {
    this.accepts = accepts;
    this.scrollTo(0);
    this.arrange();
  }

  /** Rows, each with an `id`; one that changed is another object. */
  update(rows) {
    this.rows = rows;
    this.arrange();
  }

  /** Filters, sorts, draws. */
  arrange() {
    const { column, down } = this.sort;
    const kept = this.rows.filter(this.accepts).map((row) => ({ row, value: column.value(row) }));
    const sign = down ? -1 : 1;
    kept.sort((a, b) => {
      if (a.value === b.value) return a.row.id < b.row.id ? -1 : 1;
      if (a.value == null || b.value == null) return a.value == null ? 1 : -1;
      return a.value < b.value ? -sign : sign;
    });
    this.shown = kept.map(({ row }) => row);
    const at = this.order.get(this.current);
    this.order = new Map(this.shown.map((row, index) => [row.id, index]));
    let refocus = false;
    if (!this.order.has(this.current)) {
      // The next one takes its place; with the focus, if that was there.
      const focused = this.nodes.get(this.current)?.row === document.activeElement;
      const next = this.shown[Math.min(at ?? 0, this.shown.length - 1)];
      this.current = next?.id ?? "";
      refocus = Boolean(focused && next);
    }
    this.fit();
    setAttr(this.table, "aria-rowcount", this.shown.length + 1);
    this.body.style.height = `${this.shown.length * ROW_HEIGHT}px`;
    this.note.hidden = this.shown.length > 0;
    setText(this.note, this.rows.length ? "Nothing matches." : this.options.empty);
    this.draw();
    if (refocus) this.focus();
  }

  /** Tells the style sheet what room the columns need: nothing is cut beside empty space. */
  fit() {
    for (const [{ key, width }, known] of this.widths) {
      let most = 0;
      for (const row of this.shown) {
        if (!known.has(row)) known.set(row, width(row) + PADDING);
        most = Math.max(most, known.get(row));
      }
      setVar(this.table, `--wb-need-${key}`, `${Math.min(Math.ceil(most / STEP) * STEP, WIDEST)}px`);
    }
  }

  /** Reads what only the browser knows. */
  measure() {
    this.high = this.el.clientHeight || this.high;
    this.top = this.el.scrollTop;
  }

  scrolled() {
    this.top = this.el.scrollTop;
    if (this.shown.length > WHOLE) this.draw();
  }

  scrollTo(top) {
    this.el.scrollTop = top;
    this.top = top;
  }

  /** Puts the rows into the page that are looked at, and the one that has the focus. */
  draw() {
    const total = this.shown.length;
    let [first, last] = [0, total];
    if (total > WHOLE) {
      const fit = Math.ceil(this.high / ROW_HEIGHT);
      first = Math.max(0, Math.min(Math.floor(this.top / ROW_HEIGHT), Math.max(0, total - fit)) - OVERSCAN);
      last = Math.min(total, first + fit + 2 * OVERSCAN);
    }
    const wanted = new Set(this.shown.slice(first, last).map(({ id }) => id));
    if (this.order.has(this.current)) wanted.add(this.current);
    dropAllBut(this.nodes, wanted);
    for (const id of wanted) this.drawRow(this.order.get(id));
  }

  drawRow(index) {
    const row = this.shown[index];
    let node = this.nodes.get(row.id);
    if (!node) {
      const cells = this.options.columns.map((each) => h("td", { role: "gridcell", class: cellClass(each) }));
      node = { row: h("tr", { role: "row", class: "wb-row" }, ...cells), cells, drawn: null, at: -1 };
      node.row.wbId = row.id;
      this.nodes.set(row.id, node);
      this.body.append(node.row);
    }
    if (node.at !== index) {
      node.at = index;
      node.row.style.transform = `translateY(${index * ROW_HEIGHT}px)`;
      setAttr(node.row, "aria-rowindex", index + 2);
    }
    if (node.drawn !== row) {
      node.drawn = row;
      this.options.columns.forEach((column, i) => column.fill(node.cells[i], row));
    }
    setAttr(node.row, "aria-selected", String(row.id === this.selected));
    setAttr(node.row, "tabindex", row.id === this.current ? 0 : -1);
    const mark = this.options.mark?.(row) ?? "";
    if (node.mark !== mark) {
      node.mark = mark;
      node.row.className = `wb-row ${mark}`;
    }
  }

  /** What is known of these rows' cells, or of all, isn't true any more. */
  forget(ids = this.nodes.keys()) {
    for (const id of ids) {
      const node = this.nodes.get(id);
      if (node) node.drawn = null;
    }
  }

  /** Time went on: what shows it is filled anew. */
  tick() {
    for (const { cells, drawn } of this.nodes.values()) {
      this.options.columns.forEach((column, i) => column.ticks && column.fill(cells[i], drawn));
    }
  }

  /** Selected, here or elsewhere. */
  select(id) {
    if (this.selected === id) return;
    this.selected = id;
    if (this.order.has(id)) {
      this.current = id;
      this.reveal(id);
    }
    this.draw();
  }

  reveal(id) {
    const top = this.order.get(id) * ROW_HEIGHT;
    const room = this.high - 2 * ROW_HEIGHT; // without the head
    if (top < this.top) this.scrollTo(top);
    else if (top > this.top + room) this.scrollTo(top - room);
  }

  /** The focus goes to the current row. */
  focus() {
    this.reveal(this.current);
    this.draw();
    this.nodes.get(this.current)?.row.focus({ preventScroll: true });
  }

  clicked(event) {
    const id = event.target.closest(".wb-row")?.wbId;
    if (id === undefined) return;
    this.current = id;
    this.options.onselect(id);
    this.options.onopen?.(id);
    this.focus();
  }

  pressed(event) {
    const page = Math.max(1, Math.floor(this.high / ROW_HEIGHT) - 2);
    const at = this.order.get(this.current) ?? 0;
    const last = this.shown.length - 1;
    const ways = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last };
    const target = ways[event.key];
    if (target !== undefined) {
      this.current = this.shown[Math.max(0, Math.min(target, last))]?.id ?? "";
      this.options.onselect(this.current);
      this.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      this.options.onselect(this.current);
      this.options.onopen?.(this.current);
    } else {
      return;
    }
    taken(event);
  }
}
