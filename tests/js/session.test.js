// One model of the page against a made-up kernel: gaps, requests, selection, whether anyone looks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Actions, PATIENCE_MS, QUEUED } from "../../workbench/widgets/static/actions.js";
import { Session } from "../../workbench/widgets/static/session.js";
import { FakeModel, makeWorld } from "./world.js";

function opened(t, model = new FakeModel(makeWorld())) {
  const session = new Session(model);
  t.after(() => session.close());
  return { model, session };
}

test("the trait is the first world; differences follow", (t) => {
  const { model, session } = opened(t);
  assert.equal(session.store.world.objects.size, 40);
  model.diff({ count: 7 });
  assert.equal(session.store.world.count, 7);
  assert.deepEqual(model.sent, []);
});

test("a gap is asked for once, and everything comes", (t) => {
  const { model, session } = opened(t);
  model.tell = () => {};
  model.diff({ gone: [Object.keys(model.world.objects)[0]] });
  delete model.tell;
  const late = { kind: "diff", now: 1 };
  model.send = (message) => model.sent.push(message);
  model.tell({ ...late, seq: model.world.seq + 1 });
  model.tell({ ...late, seq: model.world.seq + 2 });
  assert.deepEqual(model.sent, [{ do: "resync" }]);
  model.tell({ ...model.world, seq: 50 });
  assert.equal(session.store.world.seq, 50);
  assert.equal(session.store.world.objects.size, 39);
});

test("a selection is shared by all models of the same session, and by them alone", (t) => {
  const { session: one } = opened(t);
  const { session: same } = opened(t);
  const { session: other } = opened(t, new FakeModel({ ...makeWorld(), session: "another" }));
  one.select("o000003");
  assert.equal(same.store.selected, "o000003");
  assert.equal(one.store.selected, "o000003");
  assert.equal(other.store.selected, "");
});

test("the kernel hears when someone looks, once, and when no one does any more", (t) => {
  const { model, session } = opened(t);
  const [one, other] = [{ idle: () => false }, {}];
  session.show(one, true);
  session.show(other, true);
  session.show(one, false);
  session.show(other, false);
  const { page } = session;
  const { seq } = session.store.world;
  assert.deepEqual(model.sent, [
    { do: "shown", on: true, idle: false, page, seq },
    { do: "shown", on: false, idle: true, page, seq },
  ]);
});

test("while someone looks the kernel hears so every 20 s, and views hear the seconds", (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const { model, session } = opened(t);
  let ticks = 0;
  const view = { tick: () => (ticks += 1), idle: () => true };
  session.show(view, true);
  t.mock.timers.tick(20_000);
  assert.equal(ticks, 20);
  assert.deepEqual(model.sent.map(({ on }) => on), [true, true]);
  session.show(view, false);
  t.mock.timers.tick(60_000);
  assert.equal(ticks, 20);
  assert.equal(model.sent.length, 3);
  session.show(view, true);
  t.mock.timers.tick(5000);
  assert.equal(ticks, 25);
});

test("a comm that closes makes everything unusable; a word from the kernel makes it usable again", (t) => {
  const { model, session } = opened(t);
  model.send = () => {
    throw new Error("no comm");
  };
  const heard = [];
  session.actions.send = () => {};
  session.actions.ask({ do: "free", id: "x" }, ({ state }) => heard.push(state));
  model.emit("comm_live_update");
  assert.equal(session.store.usable, false);
  assert.deepEqual(heard, ["sent", "failed"]);
  model.tell(model.world);
  assert.equal(session.store.usable, true);
});

test("after its end a session hears nothing and nothing runs", (t) => {
  const { model, session } = opened(t);
  session.close();
  model.diff({ count: 7 });
  assert.notEqual(session.store.world.count, 7);
  assert.deepEqual([...model.listeners.values()].map((set) => set.size), [0, 0, 0, 0]);
});

/** A timer that waits to be told. */
function hourglass() {
  const timers = new Set();
  const after = (ms, act) => {
    const timer = { ms, act };
    timers.add(timer);
    return () => timers.delete(timer);
  };
  return { timers, after };
}

test("a request is sent with its number, noted, answered", () => {
  const sent = [];
  const heard = [];
  const { timers, after } = hourglass();
  const actions = new Actions((message) => sent.push(message), { after, first: 7 });
  actions.ask({ do: "free", id: "x" }, ({ state, text }) => heard.push([state, text]));
  assert.deepEqual(sent, [{ do: "free", id: "x", number: 7 }]);
  assert.equal(actions.hear({ kind: "noted", number: 7 }), true);
  assert.equal(timers.size, 0);
  assert.equal(actions.hear({ kind: "answer", number: 7, ok: true, text: "freed: x" }), true);
  assert.deepEqual(heard, [["sent", ""], ["noted", "working on it"], ["done", "freed: x"]]);
  assert.equal(actions.hear({ kind: "answer", number: 7, ok: true, text: "twice" }), false);
});

test("without a word for a second it is queued, and may be done all the same", () => {
  const heard = [];
  const { timers, after } = hourglass();
  const actions = new Actions(() => {}, { after, first: 1 });
  actions.ask({ do: "spill", id: "x" }, ({ state, text }) => heard.push([state, text]));
  const [timer] = timers;
  assert.equal(timer.ms, PATIENCE_MS);
  timer.act();
  actions.hear({ kind: "answer", number: 1, ok: false, text: "it can't move" });
  assert.deepEqual(heard.slice(1), [["queued", QUEUED], ["failed", "it can't move"]]);
});

test("another browser's answer isn't ours", () => {
  const actions = new Actions(() => {}, { ...hourglass(), first: 1 });
  assert.equal(actions.hear({ kind: "answer", number: 99, ok: true, text: "" }), false);
});
