// The selected object in full: what it is, why it is here, and what can be done about it.

import { age, bytes, typed } from "./format.js";
import { button, h, inline, say, setAttr, setChildren, setText, withCode } from "./dom.js";
import { GONE, pinKey } from "./store.js";
import { pinWords } from "./map.js";

/** The kernel's markup, which has escaped what people wrote. */
export function fillMarkup(node, html) {
  node.innerHTML = html;
}

/** Whatever is said of the selected object: its name and facts, a body, buttons, what came of them. */
export class Selected {
  /** `part` is the view's: what stands here until an object is selected is the kernel's lesson for it. */
  constructor(session, label, part) {
    this.session = session;
    this.part = part;
    this.id = "";
    this.heading = inline("wb-details-name");
    this.facts = inline("wb-details-facts");
    const head = h("div", { class: "wb-details-head" }, this.heading, " ", this.facts);
    this.cant = h("p", { class: "wb-cant", hidden: true });
    this.full = h("div", { class: "wb-details-body", tabindex: 0, role: "group", "aria-label": label }, head);
    this.note = h("span", { class: "wb-note", role: "status" });
    this.bar = h("div", { class: "wb-details-bar" }, this.note);
    this.hint = h("div", { class: "wb-lesson", tabindex: 0, role: "group", "aria-label": "What this shows" });
    this.el = h("div", { class: "wb-details" }, this.hint, this.full, this.bar);
  }

  /** The selected row, or null; `changed` is called first if it is another one. */
  show(changed, row = this.session.store.row()) {
    const lesson = this.session.store.world.words.lessons[this.part];
    setChildren(this.hint, lesson.join(), () => {
      const [first, ...more] = lesson.map((text) => h("p", {}, ...withCode(text)));
      return [first, h("details", {}, h("summary", { "aria-label": "More on what this shows" }, "?"), ...more)];
    });
    this.hint.hidden = row != null;
    this.full.hidden = row == null;
    if ((row?.id ?? "") !== this.id) {
      this.id = row?.id ?? "";
      changed(row);
    }
    if (row) setText(this.heading, row.title);
    return row;
  }

  /**
   * Whether a button can do something now; where it can't, it says why. One that never can in this
   * session isn't there: `cant` says why.
   */
  allow(button, action, obstacle = "") {
    const { store } = this.session;
    button.hidden = Boolean(store.world.words.can[action]);
    button.disabled = !store.usable || !store.world.objects.has(this.id) || Boolean(obstacle);
    setAttr(button, "title", obstacle || null);
  }

  /** Why the buttons of these actions aren't there, each reason once. */
  tellCant(...actions) {
    const { can } = this.session.store.world.words;
    const reasons = [...new Set(actions.map((action) => can[action]).filter(Boolean))];
    setChildren(this.cant, reasons.join(" "), () => withCode(reasons.join(" ")));
    this.cant.hidden = !reasons.length;
  }

  /** Asks for something to be done with it, and says what came of that as long as it is selected. */
  ask(what, then, more = {}) {
    const { id } = this;
    this.session.actions.ask({ do: what, id, ...more }, ({ state, text, answer }) => {
      if (id !== this.id) return;
      say(this.note, text, state);
      if (answer) then?.(answer);
    });
  }
}

export class Details extends Selected {
  constructor(session) {
    super(session, "Why it is here", "pins");
    this.reasons = h("ul", { class: "wb-reasons" });
    this.answer = h("div", { class: "wb-answer", hidden: true });
    this.full.append(this.reasons, this.answer, this.cant);
    this.pin = button("Pin", () => this.ask(this.pinned ? "unpin" : "pin"));
    this.free = button("Free", () => this.freed());
    this.spill = button("Spill", () => this.ask("spill"));
    this.why = button("Copy %why", () => this.copy());
    this.buttons = inline("wb-buttons", this.pin, this.free, this.spill, this.why);
    this.sure = h("div", { class: "wb-sure", role: "group", "aria-label": "Free it?", hidden: true });
    this.sure.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.keep();
    });
    this.bar.prepend(this.buttons, this.sure);
  }

  /** Shows what is selected. */
  update() {
    const { store } = this.session;
    const row = this.show((other) => {
      this.keep();
      if (other) setText(this.note, ""); // that it was freed is read when it has gone
      this.answered(false);
    });
    this.buttons.hidden = row == null || !this.sure.hidden;
    if (!row) return;
    const gone = !store.world.objects.has(row.id);
    setAttr(this.full, "data-gone", gone);
    this.tick();
    this.pinned = (row.pins ?? []).some((pin) => pin.reason === "user");
    setText(this.pin, this.pinned ? "Unpin" : "Pin");
    const freed = row.movable === "freed" ? "It is freed: its memory comes back when no array shows it any more" : "";
    const stuck = row.movable === "no" ? `It can't move: ${row.stays}` : "";
    this.allow(this.pin, this.pinned ? "unpin" : "pin", freed);
    this.allow(this.free, "free", freed);
    this.allow(this.spill, "spill", freed || stuck || (row.where === "memory" ? "" : `It is ${this.where(row)}`));
    this.allow(this.why, "why");
    this.tellCant("pin", "free", "spill", "why");
    this.list(row);
    if (!store.usable) setText(this.note, store.world.ended ?? GONE);
  }

  where(row) {
    return this.session.store.world.words.where[row.where] ?? "";
  }

  tick() {
    const { store } = this.session;
    const row = store.row();
    if (!row) return;
    const born = row.born == null ? "" : age(store.now() - row.born);
    const facts = [
      typed(row),
      bytes(row.size),
      row.state === "failed" ? "failed" : this.where(row),
      row.where !== "disk" && store.world.words.movable[row.movable], // it has moved
      born && (born === "now" ? "just now" : `${born} old`),
      row.owner && !row.site?.endsWith(` of ${row.owner}`) && `by ${row.owner}`,
      row.site && `from ${row.site}`,
      row.name && row.held ? `held by ${row.held}` : "",
    ];
    setText(this.facts, facts.filter(Boolean).join(" · "));
  }

  /** The reasons, with those that have just come or gone. */
  list(row) {
    const marks = this.session.store.pins.get(row.id) ?? new Map();
    const gone = [...marks.values()].filter(({ fresh }) => !fresh).map(({ pin }) => pin);
    const state = (pin) => {
      const mark = marks.get(pinKey(pin));
      return mark ? (mark.fresh ? "wb-fresh" : "wb-gone") : "";
    };
    const pins = [...(row.pins ?? []), ...gone];
    const key = pins.map((pin) => pinKey(pin) + state(pin)).join("\n\n");
    setChildren(this.reasons, `${row.id}${row.pins != null}${key}`, () => {
      this.answered(false); // it has told of other reasons
      if (!pins.length) return [h("li", { class: "wb-none" }, pinWords(row))];
      return pins.map((pin) => h("li", { class: state(pin) }, pin.text, pin.here && inline("wb-here", "here")));
    });
  }

  /** Asks once if something living would break. */
  freed() {
    const row = this.session.store.row();
    if (!row?.breaks) {
      this.ask("free");
      return;
    }
    const keep = button("Keep", () => this.keep());
    const free = () => {
      this.keep();
      this.ask("free");
    };
    this.sure.replaceChildren(h("span", {}, row.breaks), button("Free anyway", free, { class: "wb-danger" }), keep);
    this.sure.hidden = false;
    this.buttons.hidden = true;
    setText(this.note, "");
    keep.focus();
  }

  keep() {
    if (this.sure.hidden) return;
    const focused = this.sure.contains(document.activeElement);
    this.sure.hidden = true;
    this.buttons.hidden = false;
    if (focused) this.free.focus();
  }

  /** The answer has the same reasons, with how to let go: it stands in their place. */
  answered(on) {
    this.answer.hidden = !on;
    this.reasons.hidden = on;
  }

  /** Shows %why's answer and puts its text into the clipboard. */
  copy() {
    this.ask("why", async ({ ok, text, html }) => {
      if (!ok) return;
      if (html) fillMarkup(this.answer, html);
      this.answered(Boolean(html));
      try {
        await navigator.clipboard.writeText(text);
        setText(this.note, "copied");
      } catch {
        setText(this.note, "the browser doesn't allow copying: select the text above");
      }
    });
  }
}
