// One model of the page: its store, its requests, whether anyone looks, and the selection it shares
// with the page's other models of the session. Knows messages; draws nothing.

import { Actions } from "./actions.js";
import { GONE, Store } from "./store.js";

/** How often the kernel hears that someone still looks. */
const HEARTBEAT_MS = 20_000;
/** When everything is asked for again that didn't come. */
const RESYNC_MS = 3000;

/** The page's own line between its views: every anywidget module is loaded for itself. */
function bus() {
  const key = Symbol.for("workbench.selection");
  globalThis[key] ??= new EventTarget();
  return globalThis[key];
}

export class Session {
  /** `model` is anywidget's. */
  constructor(model) {
    this.model = model;
    this.store = new Store(() => performance.now());
    this.actions = new Actions((message) => model.send(message));
    this.key = model.get("key");
    this.page = crypto.randomUUID?.() ?? String(Math.random());
    this.parts = model.get("parts") ?? [];
    this.shown = new Set();
    this.asked = -Infinity;
    this.ends = [];
    const listen = (name, listener) => {
      model.on(name, listener);
      this.ends.push(() => model.off(name, listener));
    };
    listen("msg:custom", (message) => this.heard(message));
    listen("change:world", () => this.load(model.get("world")));
    listen("comm_live_update", () => this.lost());
    listen("comm:close", () => this.lost());
    const chosen = ({ detail }) => {
      if (detail.session === this.store.world?.session) this.store.select(detail.id);
    };
    bus().addEventListener("select", chosen);
    this.ends.push(() => bus().removeEventListener("select", chosen));
    this.load(model.get("world"));
  }

  load(world) {
    if (world?.words) this.store.replace(world); // else nothing is known yet
  }

  heard(message) {
    if (!this.store.alive) this.store.revive(true);
    if (message.kind === "world") {
      this.asked = -Infinity;
      this.load(message);
    } else if (message.kind === "diff") {
      if (!this.store.apply(message)) this.resync();
      else if (this.store.fresh.size + this.store.vanished.size + this.store.pins.size) this.settle();
    } else {
      this.actions.hear(message);
    }
  }

  /** Once, until it comes. */
  resync() {
    if (performance.now() - this.asked < RESYNC_MS) return;
    this.asked = performance.now();
    this.model.send({ do: "resync" });
  }

  /** Ends marks in time: one timer, only as long as there are any. */
  settle() {
    if (this.settling) return;
    const wait = this.store.settle();
    if (wait === Infinity) return;
    this.settling = setTimeout(() => {
      this.settling = 0;
      this.settle();
    }, wait + 10);
  }

  /** The comm's state has changed: gone, unless the kernel answers. */
  lost() {
    this.end();
    try {
      this.model.send({ do: "resync" });
    } catch {
      // It has gone, then.
    }
  }

  /** Selects an object in all views of the page. */
  select(id) {
    const detail = { session: this.store.world?.session, id };
    bus().dispatchEvent(new CustomEvent("select", { detail }));
  }

  /** A view can be seen, or not any more. */
  show(view, on) {
    const before = this.shown.size > 0;
    if (on) this.shown.add(view);
    else this.shown.delete(view);
    const now = this.shown.size > 0;
    if (now === before) return;
    this.tell(now);
    clearInterval(this.heart);
    clearInterval(this.second);
    if (!now) return;
    this.heart = setInterval(() => this.tell(true), HEARTBEAT_MS);
    this.second = setInterval(() => {
      if (!this.store.usable) return;
      for (const each of this.shown) each.tick();
    }, 1000);
  }

  tell(on) {
    if (!this.store.alive) return;
    const idle = [...this.shown].every((view) => view.idle());
    this.model.send({ do: "shown", on, idle, page: this.page, seq: this.store.world?.seq ?? 0 });
  }

  /** The model is no more: nothing will come, what was seen stays. */
  end() {
    this.store.revive(false);
    this.actions.abandon(GONE);
  }

  /** Nothing of it is left running. */
  close() {
    clearInterval(this.heart);
    clearInterval(this.second);
    clearTimeout(this.settling);
    for (const end of this.ends.splice(0)) end();
    this.actions.abandon(GONE);
  }
}
