// The view of where the memory goes: bars, two minutes, the map. Puts them together.

import { h, pane } from "./dom.js";
import { Bar } from "./bars.js";
import { StoreMap } from "./map.js";
import { Timeline } from "./timeline.js";

export class Occupancy {
  constructor(session) {
    this.session = session;
    this.bars = [new Bar(), new Bar(), new Bar()];
    this.timeline = new Timeline();
    this.map = new StoreMap(session);
    const bars = h("div", { class: "wb-bars" }, ...this.bars.map(({ el }) => el));
    const side = h("div", { class: "wb-occupancy-side" }, bars, this.timeline.el);
    this.el = pane("wb-occupancy", "Occupancy", side, this.map.el);
  }

  update(change) {
    const { bars, words } = this.session.store.world;
    this.map.resize(this.mapWidth ?? 0);
    if (change.everything || change.keys.has("bars")) {
      this.bars.forEach((bar, i) => bars?.[i] && bar.update(bars[i], words.parts));
    }
    this.map.update(change);
    if (change.everything || change.keys.has("timeline") || change.keys.has("size")) this.drawTimeline();
  }

  measure() {
    this.timelineWidth = this.timeline.el.clientWidth;
    this.mapWidth = this.map.walk.clientWidth;
  }

  retheme(theme) {
    this.theme = theme;
    this.map.retheme(theme);
    this.drawTimeline();
  }

  tick() {
    this.map.tick();
    if (!this.timeline.flat) this.drawTimeline();
  }

  drawTimeline() {
    const { store } = this.session;
    if (!store.world || !this.theme) return;
    this.timeline.draw(store.world, store.now(), this.timelineWidth ?? 0, this.theme);
  }
}
