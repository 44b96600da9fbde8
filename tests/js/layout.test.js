// The map's geometry.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hit, laidOut, spot, step } from "../../workbench/widgets/static/layout.js";
import { makeWorld } from "./world.js";

const MB = 1_000_000;
const segment = (id, end, more = {}) => ({ id, owner: id, granted: end, live: end, disk: false, end, ...more });
const extent = (id, seg, off, len) => ({ id, seg, off, len });
const size = { width: 1000, height: 40 }; // one line's height: no folding

test("extents are drawn to scale", () => {
  const rows = [extent("x", "s", 0, 256 * MB), extent("y", "s", 512 * MB, 128 * MB)];
  const { rects, scale } = laidOut([segment("s", 1024 * MB)], rows, {}, { width: 1024, height: 40 });
  assert.ok(scale >= 1024 * MB && scale < 1300 * MB);
  const perByte = 1024 / scale;
  assert.ok(Math.abs(rects[0].w - 256 * MB * perByte) <= 1);
  assert.ok(Math.abs(rects[1].x - 512 * MB * perByte) <= 1);
  assert.ok(Math.abs(rects[1].w - 128 * MB * perByte) <= 1);
});

test("what is warm beyond the last object is drawn as empty; a file has nothing of that", () => {
  const warm = segment("s", 250 * MB, { granted: 1000 * MB });
  const { lanes, rects } = laidOut([warm], [extent("x", "s", 0, 250 * MB)], {}, size);
  const [line] = lanes[0].lines;
  assert.ok(Math.abs(rects[0].w / line.w - 0.25) < 0.01);
  const file = segment("d", 250 * MB, { granted: 1000 * MB, disk: true });
  const full = laidOut([file], [extent("y", "d", 0, 250 * MB)], {}, size);
  assert.ok(Math.abs(full.rects[0].w - full.lanes[0].lines[0].w) <= 1);
});

test("one scale for all segments", () => {
  const rows = [extent("x", "s", 0, 100 * MB), extent("y", "t", 0, 100 * MB)];
  const { rects } = laidOut([segment("s", 800 * MB), segment("t", 100 * MB)], rows, {}, size);
  assert.equal(rects[0].w, rects[1].w);
});

test("a long segment is folded as long as there is height, and its objects with it", () => {
  const rows = [extent("x", "s", 0, 1000 * MB)];
  const folded = laidOut([segment("s", 1000 * MB)], rows, {}, { width: 1000, height: 120 });
  const { lines } = folded.lanes[0];
  assert.ok(lines.length > 2);
  let pieces = 0;
  for (let piece = folded.where.get("x"); piece; piece = piece.more) pieces += 1;
  assert.equal(pieces, lines.length);
  assert.ok(lines.at(-1).y + lines.at(-1).h <= 120);
  assert.equal(folded.height, 120);
});

test("short segments share a shelf, disks come last, empty ones aren't drawn", () => {
  const segments = [
    segment("disk", 50 * MB, { disk: true }),
    segment("a", 1000 * MB),
    segment("b", 50 * MB),
    segment("c", 50 * MB),
    segment("none", 0),
  ];
  const { lanes } = laidOut(segments, [], {}, { width: 1000, height: 70 });
  assert.deepEqual(lanes.map((lane) => lane.segment.id), ["a", "b", "c", "disk"]);
  const [, b, c, disk] = lanes;
  assert.equal(b.y, c.y);
  assert.ok(c.x >= b.x + b.slot);
  assert.equal(disk.y, b.y);
});

test("with too many segments the map grows, and nothing overlaps", () => {
  const segments = Array.from({ length: 30 }, (_, i) => segment(`s${i}`, 900 * MB));
  const layout = laidOut(segments, [], {}, { width: 300, height: 200 });
  assert.ok(layout.height > 200);
  const ys = layout.lines.map((line) => line.y);
  layout.lines.forEach((line, i) => i && assert.ok(line.y >= ys[i - 1] + layout.lines[i - 1].h));
});

test("extents narrower than a pixel share one, and the largest stands for them", () => {
  const rows = Array.from({ length: 500 }, (_, i) => extent(`o${i}`, "s", i * 1000, i === 300 ? 1000 : 500));
  const { rects, where } = laidOut([segment("s", 1000 * MB)], rows, {}, size);
  assert.equal(rects.length, 1);
  assert.equal(rects[0].count, 500);
  assert.equal(rects[0].row.id, "o300");
  assert.equal(rects[0].bytes, 499 * 500 + 1000);
  assert.equal(where.get("o7"), rects[0]);
});

test("no extent is lost", () => {
  const world = makeWorld({ listed: 4000, others: 96_000 });
  const rows = Object.values(world.objects);
  for (const width of [268, 570, 1400]) {
    const { rects, where } = laidOut(world.segments, rows, world.bins, { width, height: 224 });
    assert.equal(where.size, 4000);
    const first = new Set(where.values());
    let counted = 0;
    for (const rect of rects) counted += rect.count;
    assert.ok(counted >= 4000 && first.size <= rects.length);
    for (const { x, w, line } of rects) assert.ok(x >= line.x && x + w <= line.x + line.w + 1.5);
  }
});

test("what isn't listed is shown by how full its place is, beyond the listed", () => {
  const bins = { s: new Array(128).fill(0) };
  bins.s[0] = 1 * MB;
  bins.s[1] = 4 * MB;
  const rows = [extent("x", "s", 8 * MB, 4 * MB)]; // half of the second part
  const { grounds } = laidOut([segment("s", 1024 * MB)], rows, bins, size);
  assert.deepEqual(grounds.map(({ share }) => share), [0.125, 1]);
});

test("a point finds its object, with a little reach; free space finds none", () => {
  const rows = [extent("x", "s", 100 * MB, 100 * MB), extent("y", "s", 500 * MB, 100)];
  const layout = laidOut([segment("s", 1000 * MB)], rows, {}, size);
  const { x, w, line } = layout.where.get("x");
  assert.equal(hit(layout, x + w / 2, line.y + 3).rect.row.id, "x");
  assert.equal(hit(layout, x - 1, line.y + 3).rect.row.id, "x");
  assert.equal(hit(layout, x - 5, line.y + 3).rect, null);
  assert.equal(hit(layout, layout.where.get("y").x + 2, line.y + 3).rect.row.id, "y");
  assert.equal(hit(layout, x, 2), null);
  assert.equal(hit(layout, 5000, line.y + 3), null);
});

test("arrow keys go through all objects in the order of their places", () => {
  const rows = [extent("b", "s", 500, 100), extent("a", "s", 0, 100), extent("c", "t", 0, 100)];
  const layout = laidOut([segment("s", 1000), segment("t", 1000)], rows, {}, size);
  const names = [];
  let at = step(layout, null, "right");
  for (let i = 0; i < 4; i += 1) {
    names.push(at.row.id);
    at = step(layout, at, "right");
  }
  assert.deepEqual(names, ["a", "b", "c", "c"]);
  assert.equal(step(layout, layout.where.get("b"), "left").row.id, "a");
  assert.equal(step(layout, layout.where.get("b"), "down").row.id, "c");
  assert.equal(step(layout, layout.where.get("c"), "up").row.id, "a");
  assert.equal(step(layout, layout.where.get("a"), "up").row.id, "a");
  assert.equal(step(layout, layout.where.get("a"), "last").row.id, "c");
});

test("an object that has gone still has its spot", () => {
  const rows = [extent("x", "s", 100 * MB, 100 * MB)];
  const layout = laidOut([segment("s", 1000 * MB)], rows, {}, size);
  const rect = layout.where.get("x");
  const [piece] = spot(layout, rows[0]);
  assert.ok(Math.abs(piece.x - rect.x) <= 1 && Math.abs(piece.w - rect.w) <= 1);
  assert.equal(piece.y, rect.line.y);
  assert.deepEqual(spot(layout, { seg: "left", off: 0, len: 3 }), []);
});

test("nothing to draw, nothing drawn", () => {
  assert.deepEqual(laidOut([], [], {}, size).rects, []);
  assert.deepEqual(laidOut([segment("s", 10)], [], {}, { width: 0, height: 10 }).lanes, []);
});

test("few objects are drawn so high that their names can stand in them, many as fine as they need", () => {
  const size = { width: 1000, height: 224 };
  const row = (count) => {
    const rows = Array.from({ length: count }, (_, i) => extent(`o${i}`, "s", i * MB, MB));
    return laidOut([segment("s", 1000 * MB)], rows, {}, size).lines[0].h;
  };
  assert.ok(row(10) >= 22);
  assert.ok(row(60) >= 22);
  assert.ok(row(61) < 16);
});
