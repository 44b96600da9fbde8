// The view of kept variables: cells in a line with branches, what the selected one changed, Check out.

import { button, h, inline, pane, setAttr, setChildren, setText, taken, uniqueId, withCode } from "./dom.js";
import { Selected, fillMarkup } from "./details.js";
import { GONE } from "./store.js";

/** What the selected cell changed, its source, and the button. */
class Changes extends Selected {
  constructor(session) {
    super(session, "What the cell changed", "history");
    this.answer = h("div", { class: "wb-answer" });
    this.full.append(this.answer);
    this.out = button("Check out", () => this.checkOut());
    this.bar.prepend(this.out);
  }

  update(row) {
    const { store } = this.session;
    this.show(() => {
      setText(this.note, "");
      this.answer.replaceChildren();
      this.known = "";
    }, row);
    this.out.hidden = row == null;
    if (!row) return;
    setText(this.facts, [row.when, row.took].filter(Boolean).join(" · "));
    this.out.disabled = !store.usable || row.here;
    if (!store.usable) setText(this.note, store.world.ended ?? GONE);
    else this.look(row);
  }

  /** Asks what the cell changed; again when more of that is known. */
  look({ id, changed, size }) {
    const known = [id, changed, size].join("\n");
    if (known === this.known) return;
    this.known = known;
    this.ask("look", ({ html }) => fillMarkup(this.answer, html ?? ""));
  }

  /** The kernel refuses if the variables aren't any more those that are shown as present. */
  checkOut() {
    const present = this.session.store.world.history.find(({ here }) => here)?.id;
    this.ask("checkout", null, { present });
  }
}

export class History {
  constructor(session) {
    this.session = session;
    this.id = "";
    const props = { class: "wb-scroll", role: "listbox", tabindex: 0, "aria-label": "Cells" };
    this.list = h("ul", { ...props, onkeydown: (event) => this.walked(event) });
    this.none = h("p", { class: "wb-empty" });
    this.changes = new Changes(session);
    this.el = pane("wb-history", "History", this.none, this.list, this.changes.el);
  }

  update({ everything, keys }) {
    const { history, words } = this.session.store.world;
    this.rows = history ?? [];
    if (everything || keys.has("history")) {
      setChildren(this.none, words.none.history, () => withCode(words.none.history));
      this.none.hidden = history != null;
      this.list.hidden = this.changes.el.hidden = history == null;
      setChildren(this.list, JSON.stringify(history), () => {
        this.nodes = new Map(this.rows.map((row) => [row.id, this.line(row)]));
        return [...this.nodes.values()];
      });
    }
    this.mark();
  }

  line({ id, title, graph, changed, size, took, when, branches, here }) {
    const line = inline("");
    fillMarkup(line, graph);
    const chips = branches.map((name) => inline("wb-chip", name));
    const what = inline("wb-step-what", inline("wb-step-names", changed), ...chips);
    const figures = [inline("wb-step-size", size), inline("wb-step-took", took), inline("wb-step-when", when)];
    const props = { class: "wb-row wb-step", role: "option", id: uniqueId("step"), "aria-current": here && "step" };
    const onclick = () => this.select(id);
    return h("li", { ...props, onclick }, line, inline("wb-step-title", title), what, ...figures);
  }

  select(id) {
    this.id = id;
    this.mark();
    this.nodes.get(id).scrollIntoView({ block: "nearest" });
  }

  mark() {
    for (const [id, node] of this.nodes) setAttr(node, "aria-selected", String(id === this.id));
    setAttr(this.list, "aria-activedescendant", this.nodes.get(this.id)?.id);
    this.changes.update(this.rows.find(({ id }) => id === this.id) ?? null);
  }

  walked(event) {
    const { rows } = this;
    const at = rows.findIndex(({ id }) => id === this.id);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) return;
    this.select(rows[Math.min(Math.max(to, 0), rows.length - 1)].id);
    taken(event);
  }
}
