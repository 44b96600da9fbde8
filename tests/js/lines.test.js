// What a page that was opened later shows of a cell's prints: what isn't saved, once.

import assert from "node:assert/strict";
import { test } from "node:test";

import { rest, settled, unseen } from "../../workbench/widgets/static/lines.js";

test("text is as a terminal leaves it", () => {
  assert.equal(settled("\u001b[31mred\u001b[0m\n"), "red\n");
  assert.equal(settled(" 10%|#\r 20%|##\ndone\n"), " 20%|##\ndone\n");
  assert.equal(settled("windows\r\nlines\r\n"), "windows\nlines\n");
  assert.equal(settled("a bar\r"), "a bar");
});

test("what was saved isn't shown again", () => {
  const all = "epoch 0\nepoch 1\nepoch 2\n";
  assert.equal(rest(all, "epoch 0\n"), "epoch 1\nepoch 2\n");
  assert.equal(rest(all, all), "");
  assert.equal(rest(all, ""), all);
  assert.equal(rest(all, "something else\n"), all, "rather twice than not at all");
});

test("displays that were saved aren't shown again, and others stand between the prints", () => {
  const parts = ["epoch 0\n", 0, "epoch 1\n", 1];
  assert.deepEqual(unseen(parts, "epoch 0\n", (number) => number === 0), ["epoch 1\n", 1]);
  assert.deepEqual(unseen(parts, "epoch 0\nepoch 1\n", () => false), [0, 1]);
  assert.deepEqual(unseen(parts, "", () => false), parts);
});

test("a line that came often is known by those before it", () => {
  const all = "a\nsame\nb\nsame\nc\nsame\n";
  assert.equal(rest(all, "a\nsame\nb\nsame\n"), "c\nsame\n");
  assert.equal(rest(all, "not kept\nb\nsame\n"), "c\nsame\n");
  assert.equal(rest("same\nb\nsame\nc\n", "same\n"), "b\nsame\nc\n", "nothing is left out");
});

test("a log whose beginning is gone goes on where the page is", () => {
  assert.equal(rest("[1 MB before this, not kept]\n7\n8\n9\n", "5\n6\n7\n8\n"), "9\n");
});

test("a bar that was overwritten since it was saved is no reason to say all twice", () => {
  const all = settled("\r 0%step 0\n\r 5%step 5\n\r10%step 10\n\r12%");
  assert.equal(rest(all, " 0%step 0\n\r 5%step 5\n\r 7%"), "10%step 10\n12%");
});
