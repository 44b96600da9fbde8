// Figures in words: the cases are the kernel's too, see tests/unit/report/test_format.py.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as format from "../../workbench/widgets/static/format.js";

const CASES = JSON.parse(readFileSync(new URL("../unit/report/format_cases.json", import.meta.url), "utf8"));

for (const [name, cases] of Object.entries(CASES)) {
  test(name, () => {
    for (const [given, wanted] of cases) assert.equal(format[name](...[given].flat()), wanted, `${name}(${given})`);
  });
}

test("what isn't there is not known either", () => {
  for (const name of ["bytes", "age", "count", "share"]) assert.equal(format[name](undefined), "not known here");
  assert.equal(format.share(NaN), "not known here");
  assert.equal(format.typed({ kind: null, detail: "" }), "type not known here");
  assert.equal(format.typed({ kind: "ndarray", detail: "(3,)" }), "ndarray (3,)");
});
