// The columns that tables of objects have in common, and what stands in their cells.

import { typed, UNKNOWN } from "./format.js";
import { h, inline, setAttr, setChildren, setDash, setText } from "./dom.js";

/** Pixels of a letter, in the fonts of code that there are. */
const LETTER = 7.3;

/** How objects are called; `badge(row)` is an element behind that, or nothing. */
export const objectColumn = (badge) => ({
  key: "object",
  title: "Object",
  value: (row) => row.title.toLowerCase(),
  width: (row) => LETTER * row.title.length + (badge?.(row) ? 44 : 0),
  fill(cell, row) {
    const after = badge?.(row);
    const name = row.title;
    setChildren(cell, `${name}\n${after?.title ?? ""}`, () => (after ? [inline("wb-clip", name), after] : [name]));
    cell.classList.toggle("wb-unnamed", !row.name);
    const more = [row.name, row.held && `held by ${row.held}`, row.site && `from ${row.site}`];
    setAttr(cell, "title", more.filter(Boolean).join("\n") || row.id);
  },
});

export const TYPE_COLUMN = {
  key: "type",
  title: "Type",
  value: (row) => row.kind,
  width: (row) => LETTER * typed(row).length,
  fill(cell, row) {
    const text = typed(row);
    setChildren(cell, text, () => [row.kind ?? UNKNOWN, h("span", { class: "wb-dim" }, ` ${row.detail ?? ""}`)]);
    setAttr(cell, "title", text);
  },
};

/** A figure of the row, in words; `why` says what it may mean that there is none. */
export const figureColumn = (key, name, words, why = UNKNOWN) => ({
  key,
  title: name,
  right: true,
  value: (row) => row[key],
  fill(cell, row) {
    if (row[key] == null) setDash(cell, why);
    else setText(cell, words(row[key]));
  },
});
