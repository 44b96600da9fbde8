// One model of the page: its store, its requests, whether anyone looks, and the selection it shares
// with the page's other models of the session. Knows messages; draws nothing.

import { Actions } from "./actions.js";
import { Store } from "./store.js";

/** How often the kernel hears that someone still looks. */
const HEARTBEAT_MS = 20_000;
/** When everything is asked for again that didn't come. */
const RESYNC_MS = 3000;
const GONE = "the kernel has gone: this is what was last seen";

/** The page's own line between its views: every anywidget module is loaded for itself. @returns {EventTarget} */
function bus() {
  const key = Symbol.for("workbench.selection");
  globalThis[key] ??= new EventTarget();
  return globalThis[key];
}

export class Session {
  /** @param {object} model anywidget's */
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
    this.listen(model, "msg:custom", (message) => this.heard(message));
    this.listen(model, "change:world", () => this.load(model.get("world")));
    this.listen(model, "comm_live_update", () => this.lost());
    this.listen(model, "comm:close", () => this.lost());
    const chosen = ({ detail }) => {
      if (detail.session === this.store.world?.session) this.store.select(detail.id);
    };
    bus().addEventListener("select", chosen);
    this.ends.push(() => bus().removeEventListener("select", chosen));
    this.load(model.get("world"));
  }

  /** @private */
  listen(model, name, callback) {
    model.on(name, callback);
    this.ends.push(() => model.off(name, callback));
  }

  /** @private */
  load(world) {
    if (world?.objects) this.store.replace(world);
  }

  /** @private */
  heard(message) {
    if (!this.store.alive) this.store.revive(true);
    if (message.kind === "world") {
      this.asked = -Infinity;
      this.store.replace(message);
    } else if (message.kind === "diff") {
      if (!this.store.apply(message)) this.resync();
      else if (this.store.fresh.size + this.store.vanished.size + this.store.pins.size) this.settle();
    } else {
      this.actions.hear(message);
    }
  }

  /** Once, until it comes. @private */
  resync() {
    if (performance.now() - this.asked < RESYNC_MS) return;
    this.asked = performance.now();
    this.model.send({ do: "resync" });
  }

  /** Ends marks in time: one timer, only as long as there are any. @private */
  settle() {
    if (this.settling) return;
    const wait = this.store.settle();
    if (wait === Infinity) return;
    this.settling = setTimeout(() => {
      this.settling = 0;
      this.settle();
    }, wait + 10);
  }

  /** The comm's state has changed: gone, unless the kernel answers. @private */
  lost() {
    this.store.revive(false);
    this.actions.abandon(GONE);
    try {
      this.model.send({ do: "resync" });
    } catch {
      // It has gone, then.
    }
  }

  /** @param {string} id @returns {void} selects it in all views of the page */
  select(id) {
    const detail = { session: this.store.world?.session, id };
    bus().dispatchEvent(new CustomEvent("select", { detail }));
  }

  /** @param {object} request @param {(progress: object) => void} hear @returns {void} */
  ask(request, hear) {
    this.actions.ask(request, hear);
  }

  /**
   * A view can be seen, or not any more.
   * @param {object} view
   * @param {boolean} on
   * @returns {void}
   */
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
      for (const view of this.shown) view.tick();
    }, 1000);
  }

  /** @private */
  tell(on) {
    if (!this.store.alive) return;
    const idle = [...this.shown].every((view) => view.idle());
    this.model.send({ do: "shown", on, idle, page: this.page, seq: this.store.world?.seq ?? 0 });
  }

  /** The model is no more: nothing will come, what was seen stays. @returns {void} */
  end() {
    this.store.revive(false);
    this.actions.abandon(GONE);
  }

  /** Nothing of it is left running. @returns {void} */
  close() {
    clearInterval(this.heart);
    clearInterval(this.second);
    clearTimeout(this.settling);
    for (const end of this.ends.splice(0)) end();
    this.actions.abandon(GONE);
  }
}
