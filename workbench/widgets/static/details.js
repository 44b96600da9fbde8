// One object in full: what it is, why it is here, and what can be done about it.

import { age, bytes, title, typed } from "./format.js";
import { h, setAttr, setChildren, setText } from "./dom.js";
import { pinKey } from "./store.js";
import { pinWords } from "./map.js";

const WHERE = { memory: "in memory", disk: "on disk", inline: "in messages", pending: "not there yet" };

export class Details {
  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    this.id = "";
    this.heading = h("span", { class: "wb-details-name" });
    this.facts = h("span", { class: "wb-details-facts" });
    this.reasons = h("ul", { class: "wb-reasons" });
    this.answer = h("div", { class: "wb-answer", hidden: true });
    this.note = h("span", { class: "wb-note", role: "status" });
    const button = (label, act) => h("button", { type: "button", class: "wb-button", onclick: act }, label);
    this.pin = button("Pin", () => this.act(this.pinned ? "unpin" : "pin"));
    this.free = button("Free", () => this.freed());
    this.spill = button("Spill", () => this.act("spill"));
    this.why = button("Copy %why", () => this.copy());
    this.buttons = h("span", { class: "wb-buttons" }, this.pin, this.free, this.spill, this.why);
    this.sure = h("div", { class: "wb-sure", role: "group", "aria-label": "Free it?", hidden: true });
    this.sure.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.keep();
    });
    this.bar = h("div", { class: "wb-details-bar" }, this.buttons, this.sure, this.note);
    this.full = h(
      "div",
      { class: "wb-details-body", tabindex: 0, role: "group", "aria-label": "Why it is here" },
      h("div", { class: "wb-details-head" }, this.heading, " ", this.facts),
      this.reasons,
      this.answer,
    );
    this.hint = h("p", { class: "wb-empty" }, "Select an object to see why it is here.");
    this.el = h("div", { class: "wb-details" }, this.hint, this.full, this.bar);
  }

  /** Shows what is selected. @returns {void} */
  update() {
    const { store } = this.session;
    const row = store.row();
    const gone = row != null && !store.world.objects.has(row.id);
    this.hint.hidden = row != null;
    this.full.hidden = row == null;
    if (row?.id !== this.id) {
      this.id = row?.id ?? "";
      this.keep();
      if (row) setText(this.note, ""); // that it was freed is read when it has gone
      this.answered(false);
    }
    this.buttons.hidden = row == null || !this.sure.hidden;
    if (!row) return;
    setText(this.heading, title(row));
    setAttr(this.full, "data-gone", gone);
    this.tick();
    this.pinned = (row.pins ?? []).some((pin) => pin.reason === "user");
    setText(this.pin, this.pinned ? "Unpin" : "Pin");
    const usable = store.usable && !gone;
    this.pin.disabled = this.why.disabled = !usable;
    this.free.disabled = !usable || row.strength === "freed";
    setAttr(this.free, "title", row.strength === "freed" ? "It is freed: it goes with what shows it" : null);
    const stuck = row.strength === "resident" ? "It can't move: it is resident" : "";
    this.spill.disabled = !usable || row.where !== "memory" || Boolean(stuck);
    setAttr(this.spill, "title", stuck || (row.where === "memory" ? null : `It is ${WHERE[row.where]}`));
    this.list(row);
    if (!store.usable) setText(this.note, store.world.ended ?? "The kernel has gone: as last seen.");
  }

  /** Time went on. */
  tick() {
    const row = this.session.store.row();
    if (!row) return;
    const held = row.name && row.held ? `held by ${row.held}` : "";
    const born = row.born == null ? "" : age(this.session.store.now() - row.born);
    const facts = [
      typed(row),
      bytes(row.size),
      WHERE[row.where] ?? "",
      row.strength,
      born && (born === "now" ? "just now" : `${born} old`),
      row.where !== "disk" && row.owner && `by ${row.owner}`, // there the owner is the disk
      held,
    ];
    setText(this.facts, facts.filter(Boolean).join(" · "));
  }

  /** The reasons, with those that have just come or gone. @private */
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
      return pins.map((pin) =>
        h("li", { class: state(pin) }, pin.text, pin.here ? h("span", { class: "wb-here" }, "here") : null),
      );
    });
  }

  /** @private */
  act(what, then) {
    const { id } = this;
    this.session.ask({ do: what, id }, (progress) => {
      if (id !== this.id) return;
      setText(this.note, progress.text);
      this.note.dataset.state = progress.state;
      if (progress.answer) then?.(progress.answer);
    });
  }

  /** Asks once if something living would break. @private */
  freed() {
    const row = this.session.store.row();
    if (!row?.breaks) {
      this.act("free");
      return;
    }
    const keep = h("button", { type: "button", class: "wb-button", onclick: () => this.keep() }, "Keep");
    const anyway = h(
      "button",
      {
        type: "button",
        class: "wb-button wb-danger",
        onclick: () => {
          this.keep();
          this.act("free");
        },
      },
      "Free anyway",
    );
    this.sure.replaceChildren(h("span", {}, row.breaks), anyway, keep);
    this.sure.hidden = false;
    this.buttons.hidden = true;
    setText(this.note, "");
    keep.focus();
  }

  /** @private */
  keep() {
    if (this.sure.hidden) return;
    const focused = this.sure.contains(document.activeElement);
    this.sure.hidden = true;
    this.buttons.hidden = false;
    if (focused) this.free.focus();
  }

  /** The answer has the same reasons, with how to let go: it stands in their place. @private */
  answered(on) {
    this.answer.hidden = !on;
    this.reasons.hidden = on;
  }

  /** Shows %why's answer and puts its text into the clipboard. @private */
  copy() {
    this.act("why", async ({ ok, text, html }) => {
      if (!ok) return;
      if (html) this.answer.innerHTML = html; // from the kernel, which has escaped it
      this.answered(Boolean(html));
      try {
        await navigator.clipboard.writeText(text);
        setText(this.note, "copied");
      } catch {
        setText(this.note, "the browser doesn't let it be copied: select the text above");
      }
    });
  }
}
