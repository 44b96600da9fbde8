// Figures in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../workbench/widgets/static/format.js";

const table = (name, cases) =>
  test(name, () => {
    for (const [given, wanted] of cases) assert.equal(format[name](given), wanted, `${name}(${given})`);
  });

// The same as workbench/units.py's human_bytes: both stand beside each other in a notebook.
table("bytes", [
  [0, "0 B"],
  [999, "999 B"],
  [999.4, "999 B"],
  [999.6, "1 kB"],
  [1234, "1.23 kB"],
  [999_400, "999 kB"],
  [999_500, "1 MB"],
  [1_234_567, "1.23 MB"],
  [8_000_000_000, "8 GB"],
  [999_600_000_000, "1 TB"],
  [2_500_000_000_000_000, "2500 TB"],
  [null, "not known here"],
  [undefined, "not known here"],
]);
table("seconds", [
  [0, "0 s"],
  [0.0000017, "1.7 µs"],
  [0.00123, "1.23 ms"],
  [0.9996, "1 s"],
  [12.34, "12.3 s"],
  [3700, "1:01 h"],
  [null, "not known here"],
]);
table("count", [
  [0, "0"],
  [999, "999"],
  [1234567, "1\u202f234\u202f567"],
  [null, "not known here"],
]);
table("span", [
  [0.9, "0 s"],
  [59.9, "59 s"],
  [75, "1:15 min"],
  [4000, "1:06 h"],
  [-3, "0 s"],
]);
table("age", [
  [-1, "now"],
  [0.9, "now"],
  [1, "1 s"],
  [59, "59 s"],
  [61, "1 min"],
  [7300, "2 h"],
  [200_000, "2 d"],
  [null, "not known here"],
]);
table("percent", [
  [0, "0 %"],
  [0.004, "< 1 %"],
  [0.724, "72 %"],
  [NaN, "not known here"],
]);
table("rate", [
  [4.2e9, "4.2 GB/s"],
  [null, "not known here"],
]);

test("nouns agree with their numbers", () => {
  assert.equal(format.counted(1, "object"), "1 object");
  assert.equal(format.counted(0, "object"), "0 objects");
  assert.equal(format.counted(2, "dict", "dict"), "2 dict");
  assert.equal(format.counted(null, "object"), "not known here objects");
});

test("an object is called by its names, then by what holds it, then by its type", () => {
  assert.equal(format.title({ name: "x, y", held: "a", kind: "dict" }), "x, y");
  assert.equal(format.title({ name: "", held: "Out[3]", kind: "dict" }), "Out[3]");
  assert.equal(format.title({ name: "", held: "", kind: "dict" }), "dict");
});
