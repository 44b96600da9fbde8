// The world as the page knows it: differences, gaps, marks, selection.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { applied, MARK_MS, Store, worldOf } from "../../workbench/widgets/static/store.js";

const pin = (reason, text = reason) => ({ reason, text, here: true });
const row = (id, more = {}) => ({ id, title: more.held || id, size: 1, pins: [pin("name")], ...more });
const world = () => ({
  seq: 4,
  now: 100,
  session: "s",
  ended: null,
  span: 120,
  objects: { a: row("a"), b: row("b") },
  count: 2,
  timeline: [
    [50, 1, 0, 1, 0, 0],
    [90, 2, 0, 2, 0, 0],
  ],
});

let time;
let store;
let told;
beforeEach(() => {
  time = 1000;
  store = new Store(() => time);
  told = [];
  store.replace(world());
  store.subscribe((change) => told.push(change));
});

test("a difference changes, adds and takes away, and leaves the former world alone", () => {
  const before = worldOf(world());
  const after = applied(before, {
    seq: 5,
    now: 101,
    objects: { b: row("b", { size: 9 }), c: row("c") },
    gone: ["a"],
    count: 10,
  });
  assert.deepEqual([...after.objects.keys()], ["b", "c"]);
  assert.equal(after.objects.get("b").size, 9);
  assert.equal(after.count, 10);
  assert.equal(after.seq, 5);
  assert.equal(after.session, "s");
  assert.deepEqual([...before.objects.keys()], ["a", "b"]);
  assert.equal(before.count, 2);
});

test("the timeline keeps two minutes, and what was so when they began", () => {
  const after = applied(worldOf(world()), { seq: 5, now: 215, timeline: [[215, 3, 0, 3, 0, 0]] });
  assert.deepEqual(after.timeline.map(([at]) => at), [90, 215]);
});

test("who listens is told what changed", () => {
  assert.ok(store.apply({ seq: 5, now: 101, objects: { c: row("c") }, gone: ["a"], count: 2 }));
  assert.deepEqual([...told[0].objects].sort(), ["a", "c"]);
  assert.deepEqual([...told[0].keys].sort(), ["count", "objects"]);
  assert.equal(told[0].everything, false);
});

test("a gap is noticed, and changes nothing", () => {
  assert.equal(store.apply({ seq: 6, now: 101, gone: ["a"] }), false);
  assert.ok(store.world.objects.has("a"));
  assert.equal(told.length, 0);
});

test("a difference without a world before it is a gap", () => {
  assert.equal(new Store(() => 0).apply({ seq: 1, now: 1 }), false);
});

test("a difference that the world has already is dropped", () => {
  assert.equal(store.apply({ seq: 4, now: 99, gone: ["a"] }), true);
  assert.ok(store.world.objects.has("a"));
});

test("what came and what went is marked, for a moment", () => {
  store.apply({ seq: 5, now: 101, objects: { c: row("c") }, gone: ["a"] });
  assert.deepEqual([...store.fresh.keys()], ["c"]);
  assert.equal(store.vanished.get("a").row.id, "a");
  time += MARK_MS - 1;
  assert.equal(store.settle(), 1);
  assert.equal(store.fresh.size, 1);
  time += 1;
  told.length = 0;
  assert.equal(store.settle(), Infinity);
  assert.equal(store.fresh.size + store.vanished.size, 0);
  assert.deepEqual([...told[0].objects].sort(), ["a", "c"]);
  assert.ok(told[0].keys.has("marks"));
});

test("what has gone is called as it was, though its variable went just before it", () => {
  store.apply({ seq: 5, now: 101, objects: { a: row("a", { held: "x" }) } });
  store.apply({ seq: 6, now: 101, objects: { a: row("a", { held: "" }) } });
  store.apply({ seq: 7, now: 101, gone: ["a"] });
  assert.equal(store.vanished.get("a").row.held, "x");
  assert.equal(store.vanished.get("a").row.title, "x");
  store.apply({ seq: 8, now: 101, objects: { b: row("b", { held: "y" }) } });
  store.apply({ seq: 9, now: 101, objects: { b: row("b", { held: "" }) } });
  time += MARK_MS; // long ago: y may be another object by now
  store.apply({ seq: 10, now: 103, gone: ["b"] });
  assert.equal(store.vanished.get("b").row.held, "");
});

test("one that comes back isn't gone", () => {
  store.apply({ seq: 5, now: 101, gone: ["a"] });
  store.apply({ seq: 6, now: 101, objects: { a: row("a") } });
  assert.equal(store.vanished.size, 0);
  assert.ok(store.fresh.has("a"));
});

test("pins that came and went are marked, those that stay are not", () => {
  const pins = [pin("name"), pin("view", "arrays in worker 2 show it")];
  store.apply({ seq: 5, now: 101, objects: { a: row("a", { pins }) } });
  assert.deepEqual([...store.pins.get("a").values()].map((m) => [m.pin.reason, m.fresh]), [["view", true]]);
  store.apply({ seq: 6, now: 101, objects: { a: row("a", { pins: [pins[0]] }) } });
  assert.deepEqual([...store.pins.get("a").values()].map((m) => [m.pin.reason, m.fresh]), [["view", false]]);
  time += MARK_MS;
  store.settle();
  assert.equal(store.pins.size, 0);
});

test("a world that replaces another marks nothing", () => {
  store.apply({ seq: 5, now: 101, objects: { c: row("c") } });
  store.replace({ ...world(), seq: 9, objects: { z: row("z") } });
  assert.equal(store.fresh.size + store.vanished.size, 0);
  assert.equal(told.at(-1).everything, true);
});

test("the kernel's time goes on between messages, and stands when the session is over", () => {
  time += 2500;
  assert.equal(store.now(), 102.5);
  store.revive(false);
  time += 60_000;
  assert.equal(store.now(), 102.5);
  assert.equal(store.usable, false);
  store.revive(true);
  time += 1000;
  assert.equal(store.now(), 103.5);
  store.apply({ seq: 5, now: 110, ended: "the server left" });
  time += 1000;
  assert.equal(store.now(), 110);
  assert.equal(store.usable, false);
});

test("selecting is told once; what has just vanished can still be looked at", () => {
  assert.equal(store.select("a"), true);
  assert.equal(store.select("a"), false);
  assert.equal(told.length, 1);
  assert.equal(store.row().id, "a");
  store.apply({ seq: 5, now: 101, gone: ["a"] });
  assert.equal(store.row().id, "a");
  time += MARK_MS;
  store.settle();
  assert.equal(store.row(), null);
});

test("who has stopped listening hears nothing", () => {
  const heard = [];
  const stop = store.subscribe((change) => heard.push(change));
  stop();
  store.select("a");
  assert.equal(heard.length, 0);
});
