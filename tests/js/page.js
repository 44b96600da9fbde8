// The dev page: the modules as they are, linked natively, on a made-up session. To look at it, serve the
// project's root (python -m http.server --bind 127.0.0.1) and open /tests/js/page.html. The address says what:
// ?dark&listed=4000&others=96000&live=250&parts=pins,jobs&engine=ray

import view from "/workbench/widgets/static/view.js";
import { FakeModel, makeWorld } from "./world.js";

const wanted = new URLSearchParams(location.search);
const number = (name, otherwise) => Number(wanted.get(name) ?? otherwise);
document.body.dataset.jpThemeLight = String(!wanted.has("dark"));

const world = makeWorld({
  listed: number("listed", 40),
  others: number("others", 0),
  seed: number("seed", 1),
  now: Date.now() / 1000,
});
if (wanted.get("engine") === "ray") {
  world.session = "first-steps on Ray";
  world.speed = null;
  for (const bar of world.bars) {
    const parts = bar.parts.map(([part]) => [part, null]);
    Object.assign(bar, { whole: false, figure: "not known here", parts, beside: [] });
  }
  for (const action of Object.keys(world.words.can)) world.words.can[action] = "read-only view of a Ray cluster";
  const unknown = { born: null, pickle: null, load: null, pins: null, movable: null, owner: null, detail: "" };
  for (const row of Object.values(world.objects)) Object.assign(row, unknown, { seg: "" });
  Object.assign(world, { segments: null, jobs: null, bins: {}, rest: [], timeline: [] });
}
const model = new FakeModel(world, wanted.get("parts")?.split(",") ?? undefined);
const place = document.createElement("div");
place.className = "workbench-view";
place.dataset.workbench = model.get("key");
place.textContent = "The still form.";
document.getElementById("place").append(place);
globalThis.model = model;
globalThis.cleanup = view.initialize({ model });
if (wanted.has("live")) setInterval(() => model.live(number("live", 250) / 1000), number("live", 250));
