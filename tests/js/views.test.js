// What views make of rows, before any of it is drawn: colours, chips, costs, the timeline's marks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { COLOR_BY, Coloring, SIGNALS, isDark } from "../../workbench/widgets/static/colors.js";
import { byType, copySpeed, speedWords, totalOf } from "../../workbench/widgets/static/costs.js";
import { filled, shortened } from "../../workbench/widgets/static/map.js";
import { chips } from "../../workbench/widgets/static/pins.js";
import { happened } from "../../workbench/widgets/static/timeline.js";
import { WORDS } from "./world.js";

const row = (kind, size, more = {}) => ({ id: kind, kind, size, owner: "this notebook", ...more });

function contrast(one, other) {
  const luminance = (hex) => {
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

test("every colour stands out from its ground: 3:1, and 4.5:1 where it is text", () => {
  for (const [dark, ground] of [[false, "#ffffff"], [true, "#212121"]]) {
    for (const by of Object.keys(COLOR_BY)) {
      for (const color of new Coloring(by).palette(dark)) {
        assert.ok(contrast(color, ground) >= 3, `${by}: ${color} on ${ground}`);
      }
    }
    assert.ok(contrast(SIGNALS[dark ? "dark" : "light"].bad, ground) >= 4.5);
  }
});

test("a segment says how much of its length has no memory any more", () => {
  const segment = { disk: false, live: 4e8, granted: 4e8, end: 4e8 };
  assert.equal(filled(segment), "400 MB live of 400 MB");
  assert.equal(filled({ ...segment, end: 8e8 }), "400 MB live of 400 MB, 400 MB given back");
  assert.equal(filled({ ...segment, disk: true, granted: 0 }), "400 MB");
});

test("types have the hues that the kernel gave them, whatever else is there", () => {
  const hues = { type: { small: 4, large: 2, away: 1 }, owner: {} };
  const coloring = new Coloring("type");
  const rows = [row("small", 1), row("large", 100)];
  coloring.assign(rows, hues);
  assert.equal(coloring.of(rows[0]), 4);
  assert.equal(coloring.of(rows[1]), 2);
  assert.deepEqual(coloring.legend(false).map(({ label }) => label), ["large", "small"]);
  const again = new Coloring("type"); // as after a reload
  again.assign([row("small", 1000), row("large", 1)], hues);
  assert.equal(again.of(rows[0]), 4);
});

test("who has no hue is among the others, and the legend says so", () => {
  const coloring = new Coloring("type");
  const rows = [row("t0", 9), row("t1", 8), row(null, 7)];
  coloring.assign(rows, { type: { t0: 0, "not known here": 3 } });
  assert.equal(coloring.of(rows[0]), 0);
  assert.equal(coloring.of(rows[1]), -1);
  assert.equal(coloring.of(rows[2]), 3);
  assert.deepEqual(coloring.legend(false).map(({ label }) => label), ["t0", "not known here", "others"]);
});

test("a name is shortened to what fits, and left out if that is next to nothing", () => {
  const widthOf = (text) => 7 * text.length;
  assert.equal(shortened("train", 35, widthOf), "train");
  assert.equal(shortened("measurements", 50, widthOf), "measur…");
  assert.equal(shortened("measurements", 27, widthOf), "");
});

test("a speed far below the machine's says why, if it is known", () => {
  const world = { speed: 8e9, words: WORDS };
  const said = speedWords(4e8, { cold: true }, world);
  assert.equal(said, `400 MB/s, 5 % of this machine's copy speed; ${WORDS.cold}`);
  assert.equal(speedWords(4e8, { cold: false }, world), "400 MB/s, 5 % of this machine's copy speed");
  assert.equal(speedWords(7e9, { cold: true }, world), "7 GB/s, 88 % of this machine's copy speed");
  assert.equal(speedWords(7e9, { cold: true }, { ...world, speed: null }), "7 GB/s");
});

test("costs are sorted by all that is known of them", () => {
  assert.equal(totalOf({ pickle: 1, copy: 2, load: null }), 3);
  assert.equal(totalOf({ pickle: null, copy: null, load: null }), null);
});

test("age and what can move have their own scales", () => {
  const ages = new Coloring("age", WORDS);
  assert.deepEqual([1, 30, 300, 3000, 30_000].map((old) => ages.of({ born: 50_000 - old }, 50_000)), [0, 1, 2, 3, 4]);
  assert.equal(ages.of({ born: null }, 50_000), -1);
  assert.deepEqual(ages.legend(false).map(({ label }) => label), WORDS.ages.map(([, label]) => label));
  const movable = new Coloring("movable", WORDS);
  assert.deepEqual(["no", "yes", "freed", null].map((each) => movable.of({ movable: each })), [0, 1, 2, -1]);
  assert.equal(movable.legend(false)[0].label, "can't move to disk");
});

test("a ground is dark or not, in whatever way the browser says it", () => {
  assert.equal(isDark("rgb(33, 33, 33)"), true);
  assert.equal(isDark("rgb(255, 255, 255)"), false);
  assert.equal(isDark("color(srgb 0.07 0.07 0.07 / 0.9)"), true);
});

test("pins with one reason share a chip that counts them and tells all", () => {
  const pins = [
    { reason: "ref", text: "parts[2]", here: false, n: 1 },
    { reason: "ref", text: "y", here: true, n: 1 },
    { reason: "name", text: "x", here: false, n: 1 },
    { reason: "later", text: "?", here: false, n: 1 },
    { reason: "task", text: "needed by 1 200 tasks", here: false, n: 1200 },
  ];
  assert.deepEqual(chips(pins, WORDS.reasons), [
    { reason: "ref", words: "2 refs", text: "parts[2]\ny", here: true },
    { reason: "name", words: "named", text: "x", here: false },
    { reason: "later", words: "later", text: "?", here: false },
    { reason: "task", words: "1 200 tasks", text: "needed by 1 200 tasks", here: false },
  ]);
});

test("the speed of a copy is told where there is enough to tell", () => {
  assert.equal(copySpeed({ inband: 0, outband: 4e6, copy: 0.001 }, 100_000), 4e9);
  assert.equal(copySpeed({ inband: 100, outband: 0, copy: 1e-6 }, 100_000), null);
  assert.equal(copySpeed({ inband: null, outband: null, copy: null }, 100_000), null);
});

test("types add up what is known; what isn't stays unknown", () => {
  const cost = (more) => ({ pickle: 1, copy: 2, load: null, inband: 3, outband: 4, repeats: 0, ...more });
  const [type, other] = byType([row("a", 1, cost()), row("a", 1, cost({ load: 5, repeats: 2 })), row("b", 1, cost())]);
  assert.deepEqual(
    [type.kind, type.count, type.pickle, type.copy, type.load, type.outband, type.repeats],
    ["a", 2, 2, 4, 5, 8, 2],
  );
  assert.equal(other.load, null);
});

test("marks of the timeline are what was added since the sample before, column by column", () => {
  const samples = [
    [0, 0, 0, 10, 5, 1],
    [1, 0, 0, 12, 5, 1],
    [1.2, 0, 0, 12, 6, 1],
    [9, 0, 0, 12, 6, 1],
  ];
  assert.deepEqual([...happened(samples, Math.round)], [[1, [2, 1, 0]]]);
});
