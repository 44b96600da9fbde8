// The view of where the memory goes: bars, two minutes, the map. Puts them together.

import { h } from "./dom.js";
import { Bars } from "./bars.js";
import { StoreMap } from "./map.js";
import { Timeline } from "./timeline.js";

export class Occupancy {
  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    this.bars = new Bars();
    this.timeline = new Timeline();
    this.map = new StoreMap(session);
    this.el = h(
      "div",
      { class: "wb-pane wb-occupancy", role: "group", "aria-label": "Occupancy" },
      h("div", { class: "wb-occupancy-side" }, this.bars.el, this.timeline.el),
      this.map.el,
    );
  }

  /** @param {import("./store.js").Change} change @returns {void} */
  update(change) {
    const { world } = this.session.store;
    this.map.resize(this.mapWidth ?? 0);
    if (change.everything || change.keys.has("totals")) this.bars.update(world.totals ?? {});
    this.map.update(change);
    if (change.everything || change.keys.has("timeline") || change.keys.has("size")) this.drawTimeline();
  }

  /** @returns {void} */
  measure() {
    this.timelineWidth = this.timeline.el.clientWidth;
    this.mapWidth = this.map.walk.clientWidth;
  }

  /** @param {object} theme @returns {void} */
  retheme(theme) {
    this.theme = theme;
    this.map.retheme(theme);
    this.drawTimeline();
  }

  /** Time went on. @returns {void} */
  tick() {
    this.map.tick();
    if (!this.timeline.flat) this.drawTimeline();
  }

  /** @private */
  drawTimeline() {
    const { store } = this.session;
    if (!store.world || !this.theme) return;
    this.timeline.draw(store.world, store.now(), this.timelineWidth ?? 0, this.theme);
  }
}
