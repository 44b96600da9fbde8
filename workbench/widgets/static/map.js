// The map of segments: every extent to scale on a canvas, looked at with the mouse, walked by keys.
// Geometry is layout.js's, colours are colors.js's; this draws and listens.

import { age, bytes, counted, title, typed, UNKNOWN } from "./format.js";
import { drawing, h, radios, setAttr, setChildren, setText } from "./dom.js";
import { COLOR_BY, Coloring, isDark } from "./colors.js";
import { hit, laidOut, spot, step } from "./layout.js";

/** The map's own height; with many segments it scrolls. */
const MAP_HEIGHT = 224;
const AGE_TICKS = 5;
/** Pixels of an extent from which on its name may stand in it. */
const NAME_MIN = 24;
const NAME_HEIGHT = 16;
const NAME_PAD = 6;
const KEYS = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
  Home: "first",
  End: "last",
};

/** @param {object} row @returns {string} why it is here, in a line */
export function pinWords(row) {
  if (!row.pins) return `why it is here: ${UNKNOWN}`;
  return row.pins.map((pin) => pin.text).join("; ") || "nothing keeps it";
}

/** @param {object} segment @returns {string} how full it is; a file is as large as what is in it */
function filled({ disk, live, granted }) {
  return disk ? bytes(live) : `${bytes(live)} live of ${bytes(granted)}`;
}

export class StoreMap {
  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    this.coloring = new Coloring(COLOR_BY[0]);
    this.layout = null;
    this.width = 0;
    this.hover = null;
    this.cursor = null;
    this.ticks = 0;
    this.canvas = h("canvas", { role: "img", "aria-label": "Map of the store" });
    this.over = h("canvas", { class: "wb-over", "aria-hidden": "true" });
    this.tip = h("div", { class: "wb-tip", role: "tooltip", hidden: true });
    this.said = h("div", { class: "wb-sr", "aria-live": "polite" });
    this.walk = h(
      "div",
      {
        class: "wb-map-scroll",
        tabindex: 0,
        role: "application",
        "aria-label": "Map of the store. Arrow keys go from object to object, Enter selects.",
      },
      this.canvas,
      this.over,
    );
    this.none = h("p", { class: "wb-empty wb-map-none", hidden: true });
    this.legend = h("ul", { class: "wb-key wb-legend" });
    this.el = h(
      "div",
      { class: "wb-map" },
      h(
        "div",
        { class: "wb-map-head" },
        h("span", { class: "wb-bar-label" }, "Segments"),
        radios("Colour by", COLOR_BY, (by) => this.colorBy(by)),
      ),
      h("div", { class: "wb-map-pane" }, this.walk, this.none, this.tip),
      this.legend,
      this.said,
    );
    this.walk.addEventListener("pointermove", (event) => this.pointed(event));
    this.walk.addEventListener("pointerleave", () => this.point(null));
    this.walk.addEventListener("click", (event) => this.clicked(event));
    this.walk.addEventListener("keydown", (event) => this.pressed(event));
    this.walk.addEventListener("focus", () => this.mark());
    this.walk.addEventListener("blur", () => this.point(null));
  }

  /** @private */
  colorBy(by) {
    this.coloring = new Coloring(by);
    this.paint();
  }

  /** @param {import("./store.js").Change} change @returns {void} */
  update({ everything, keys }) {
    const laid = ["objects", "segments", "bins", "rest"].some((key) => keys.has(key));
    if (everything || laid) this.arrange();
    else this.mark();
  }

  /** @param {number} width @returns {void} */
  resize(width) {
    if (width === this.width) return;
    this.width = width;
    this.arrange();
  }

  /** @param {object} theme @returns {void} */
  retheme(theme) {
    this.theme = theme;
    this.paint();
  }

  /** A second has gone by: colours by age change slowly. */
  tick() {
    this.ticks += 1;
    if (this.coloring.by === "age" && this.ticks % AGE_TICKS === 0) this.paint();
  }

  /** Lays out anew. @private */
  arrange() {
    const { world } = this.session.store;
    if (!world || this.width <= 0) return;
    const grain = 1 / (globalThis.devicePixelRatio || 1);
    const size = { width: this.width, height: MAP_HEIGHT, grain };
    this.layout = laidOut(world.segments ?? [], world.objects.values(), world.bins ?? {}, size);
    this.none.hidden = this.layout.lanes.length > 0;
    this.el.classList.toggle("wb-unknown", !world.segments);
    setText(this.none, world.segments ? "Nothing in shared memory yet." : "Not known here.");
    const cursor = this.cursor?.row.id;
    this.cursor = (cursor && this.layout.where.get(cursor)) || null;
    if (this.hover) this.point(null);
    this.describe(world);
    this.paint();
  }

  /** @private */
  describe(world) {
    const lanes = this.layout.lanes.map(
      ({ segment }) => `${segment.owner}: ${filled(segment)}`,
    );
    const counts = counted(world.totals?.count, "object");
    setAttr(this.canvas, "aria-label", `Map of the store, ${counts}. ${lanes.join("; ")}`);
  }

  /** Draws lanes and extents. @private */
  paint() {
    const { layout, theme, coloring, session } = this;
    if (!layout || !theme) return;
    const now = session.store.now();
    coloring.assign([...session.store.world.objects.values()].filter((row) => layout.where.has(row.id)));
    const context = drawing(this.canvas, this.width, layout.height);
    for (const lane of layout.lanes) this.lane(context, lane, theme);
    context.fillStyle = theme.dim;
    for (const { x, w, line, share } of layout.grounds) {
      const high = Math.max(2, line.h * share);
      context.globalAlpha = 0.42;
      context.fillRect(x, line.y + line.h - high, w, high);
    }
    context.globalAlpha = 1;
    const palette = coloring.palette(theme.dark);
    const groups = palette.map(() => []);
    for (const rect of layout.rects) groups.at(coloring.of(rect.row, now)).push(rect);
    groups.forEach((rects, color) => {
      context.fillStyle = palette[color];
      for (const { x, w, line, row } of rects) {
        if (row.strength === "freed" && coloring.by !== "strength") context.globalAlpha = 0.5;
        // A seam between neighbours, where there is room for one.
        context.fillRect(x, line.y, w > 3 ? w - 1 : w, line.h);
        context.globalAlpha = 1;
      }
      this.write(context, rects, palette[color], theme);
    });
    this.key(theme);
    this.mark();
  }

  /** The names of objects that have room for them. @private */
  write(context, rects, color, theme) {
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    context.fillStyle = isDark(color) ? "#fff" : "#111";
    const written = new Set();
    for (const { x, w, line, row, count } of rects) {
      if (w < NAME_MIN || line.h < NAME_HEIGHT || count > 1 || written.has(row.id)) continue;
      const name = title(row);
      if (context.measureText(name).width + 2 * NAME_PAD > w) continue;
      written.add(row.id);
      context.fillText(name, x + NAME_PAD, line.y + line.h / 2 + 0.5);
    }
  }

  /** @private */
  lane(context, { segment, x, y, slot, lines }, theme) {
    context.textBaseline = "alphabetic";
    context.font = `500 11px ${theme.font}`;
    context.fillStyle = theme.fg;
    context.fillText(segment.owner, x, y + 11, slot);
    const from = context.measureText(segment.owner).width + 8;
    context.font = `11px ${theme.font}`;
    context.fillStyle = theme.dim;
    const fits = [filled(segment), bytes(segment.live)].find(
      (words) => from + context.measureText(words).width <= slot,
    );
    if (fits) context.fillText(fits, x + from, y + 11);
    for (const line of lines) {
      context.fillStyle = theme.track;
      context.fillRect(line.x, line.y, line.w, line.h);
    }
  }

  /** @private */
  key(theme) {
    const entries = this.layout.lanes.length ? this.coloring.legend(theme.dark) : [];
    const { world } = this.session.store;
    const others = (world.rest ?? []).reduce((sum, { count }) => sum + (count ?? 0), 0);
    const name = `${theme.dark}${others}${entries.map(({ color, label }) => color + label).join()}`;
    setChildren(this.legend, name, () => {
      const parts = entries.map(({ color, label }) => {
        const swatch = h("span", { class: "wb-swatch", "aria-hidden": "true" });
        swatch.style.background = color;
        return h("li", {}, swatch, h("span", {}, label));
      });
      if (!others) return parts;
      const swatch = h("span", { class: "wb-swatch wb-p-rest", "aria-hidden": "true" });
      return [...parts, h("li", {}, swatch, h("span", {}, `${counted(others, "small one")}, by place`))];
    });
  }

  /** What stands out for now: selected, pointed at, new, just gone. @private */
  mark() {
    const { layout, theme, session } = this;
    if (!layout || !theme) return;
    const { store } = session;
    const context = drawing(this.over, this.width, layout.height);
    context.lineWidth = 1.5;
    context.strokeStyle = theme.accent;
    for (const id of store.fresh.keys()) this.outline(context, layout.where.get(id), 1);
    context.setLineDash([3, 3]);
    context.strokeStyle = theme.fg;
    for (const { row } of store.vanished.values()) {
      for (const { x, y, w, h: high } of spot(layout, row)) {
        context.strokeRect(x + 0.75, y + 0.75, Math.max(w - 1.5, 1), high - 1.5);
      }
    }
    context.setLineDash([]);
    const selected = layout.where.get(store.selected);
    if (selected) {
      context.lineWidth = 4;
      context.strokeStyle = theme.bg;
      this.outline(context, selected, -1);
      context.lineWidth = 2;
      context.strokeStyle = theme.fg;
      this.outline(context, selected, -1);
    }
    const at = this.hover ?? (document.activeElement === this.walk ? this.cursor : null);
    context.lineWidth = 2;
    context.strokeStyle = theme.accent;
    if (at) this.outline(context, layout.where.get(at.row.id) ?? at, -1);
  }

  /** Around all pieces of an object. @private */
  outline(context, rect, inset) {
    for (let piece = rect; piece; piece = piece.more) {
      const { x, w, line } = piece;
      const left = Math.max(x + inset, 1);
      const right = Math.min(Math.max(x + w - inset, left + 2), this.width - 1);
      context.strokeRect(left, line.y + inset, right - left, line.h - 2 * inset);
    }
  }

  /** @private */
  pointed(event) {
    const box = this.canvas.getBoundingClientRect();
    const found = this.layout && hit(this.layout, event.clientX - box.left, event.clientY - box.top);
    this.point(found?.rect ?? null, found?.ground ?? null);
  }

  /** @private */
  clicked(event) {
    const box = this.canvas.getBoundingClientRect();
    const found = this.layout && hit(this.layout, event.clientX - box.left, event.clientY - box.top);
    if (!found?.rect) return;
    this.cursor = found.rect;
    this.session.select(found.rect.row.id);
  }

  /** @private */
  pressed(event) {
    const way = KEYS[event.key];
    if (way) {
      const selected = this.layout?.where.get(this.session.store.selected);
      this.cursor = this.layout && step(this.layout, this.cursor ?? selected ?? null, way);
      this.point(this.cursor);
      if (this.cursor) {
        setText(this.said, this.words(this.cursor).join(", "));
        this.follow(this.cursor.line);
      }
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor) {
      this.session.select(this.cursor.row.id);
      setText(this.said, `selected: ${title(this.cursor.row)}`);
    } else if (event.key === "Escape" && this.hover) {
      this.point(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** @private */
  follow(line) {
    if (line.y < this.walk.scrollTop) this.walk.scrollTop = line.y;
    const under = line.y + line.h - this.walk.clientHeight;
    if (under > this.walk.scrollTop) this.walk.scrollTop = under;
  }

  /** What a place is, in lines. @private */
  words({ row, count, bytes: together }) {
    if (count > 1) {
      return [`${counted(count, "object")} here`, bytes(together), `the largest: ${title(row)}`];
    }
    const born = row.born == null ? null : age(this.session.store.now() - row.born);
    return [
      title(row),
      typed(row),
      bytes(row.size) + (born ? `, ${born === "now" ? "just now" : `${born} old`}` : ""),
      [row.strength, pinWords(row)].filter(Boolean).join(": "),
    ];
  }

  /** Shows what is here beside it, or nothing. @private */
  point(rect, ground = null) {
    if (this.hover === rect && this.ground === ground) return;
    this.hover = rect;
    this.ground = ground;
    this.mark();
    const spotted = rect ?? ground;
    this.tip.hidden = !spotted;
    this.walk.classList.toggle("wb-pointing", Boolean(rect));
    if (!spotted) return;
    const lines = rect ? this.words(rect) : [`small objects: ${bytes(ground.bytes)} here`];
    const classes = ["wb-tip-title", "wb-tip-kind", "", "wb-tip-pins"];
    this.tip.replaceChildren(...lines.map((line, i) => h("div", { class: classes[i] }, line)));
    const { line, x, w } = spotted;
    const below = line.y + line.h + 6 - this.walk.scrollTop;
    const high = this.tip.offsetHeight;
    const left = Math.min(Math.max(x + w / 2 - 24, 0), Math.max(this.width - this.tip.offsetWidth, 0));
    const top = below + high < MAP_HEIGHT + 40 ? below : line.y - high - 6 - this.walk.scrollTop;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}
