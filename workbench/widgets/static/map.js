// The map of segments: every extent to scale on a canvas, looked at with the mouse, walked by keys.
// Geometry is layout.js's, colours are colors.js's; this draws and listens.

import { age, bytes, counted, typed, UNKNOWN } from "./format.js";
import { drawing, h, inline, radios, setAttr, setChildren, setText, taken } from "./dom.js";
import { COLOR_BY, Coloring, isDark } from "./colors.js";
import { hit, laidOut, spot, step } from "./layout.js";

/** The map's own height; with many segments it scrolls. */
const MAP_HEIGHT = 224;
const AGE_TICKS = 5;
/** Pixels of an extent from which on its name may stand in it. */
const NAME_MIN = 24;
const NAME_HEIGHT = 16;
const NAME_PAD = 6;
/** Letters of a shortened name, at least. */
const NAME_LEAST = 3;
const WAYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last" };
const TIP_CLASSES = ["wb-tip-title", "wb-tip-kind", "", "wb-tip-pins"];
const HINT = "Map of the store. Arrow keys go from object to object, Enter selects.";

/** Why an object is here, in a line. */
export function pinWords(row) {
  if (!row.pins) return `why it is here: ${UNKNOWN}`;
  return row.pins.map((pin) => pin.text).join("; ") || "nothing keeps it";
}

/** How full a segment is, and how much of it was given back; a file is as large as what is in it. */
export function filled({ disk, live, granted, end }) {
  const given = end > granted ? `, ${bytes(end - granted)} given back` : "";
  return disk ? bytes(live) : `${bytes(live)} live of ${bytes(granted)}${given}`;
}

/** As much of a name as fits, with an ellipsis; nothing if that is less than a few letters. */
export function shortened(name, room, widthOf) {
  const width = widthOf(name);
  if (width <= room) return name;
  let letters = Math.min(Math.floor((name.length * room) / width), name.length - 1);
  const cut = () => `${name.slice(0, letters)}…`;
  while (letters >= NAME_LEAST && widthOf(cut()) > room) letters -= 1;
  return letters >= NAME_LEAST ? cut() : "";
}

export class StoreMap {
  constructor(session) {
    this.session = session;
    this.by = "type";
    this.layout = null;
    this.width = 0;
    this.hover = null;
    this.cursor = null;
    this.ticks = 0;
    this.canvas = h("canvas", { role: "img", "aria-label": "Map of the store" });
    this.over = h("canvas", { class: "wb-over", "aria-hidden": "true" });
    this.tip = h("div", { class: "wb-tip", role: "tooltip", hidden: true });
    this.said = h("div", { class: "wb-sr", "aria-live": "polite" });
    const scroll = { class: "wb-map-scroll", tabindex: 0, role: "application", "aria-label": HINT };
    this.walk = h("div", scroll, this.canvas, this.over);
    this.none = h("p", { class: "wb-empty wb-map-none", hidden: true });
    this.legend = h("ul", { class: "wb-key wb-legend" });
    const choice = radios("Colour by", Object.keys(COLOR_BY), (by) => this.colorBy(by));
    this.el = h(
      "div",
      { class: "wb-map" },
      h("div", { class: "wb-map-head" }, inline("wb-bar-label", "Segments"), choice),
      h("div", { class: "wb-map-pane" }, this.walk, this.none, this.tip),
      this.legend,
      this.said,
    );
    const listeners = {
      pointermove: (event) => this.pointed(event),
      pointerleave: () => this.point(null),
      click: (event) => this.clicked(event),
      keydown: (event) => this.pressed(event),
      focus: () => this.mark(),
      blur: () => this.point(null),
    };
    for (const [name, listener] of Object.entries(listeners)) this.walk.addEventListener(name, listener);
  }

  colorBy(by) {
    this.by = by;
    this.coloring = null;
    this.paint();
  }

  update({ everything, keys }) {
    const laid = ["objects", "segments", "bins", "rest", "hues"].some((key) => keys.has(key));
    if (everything || laid) this.arrange();
    else this.mark();
  }

  resize(width) {
    if (width === this.width) return;
    this.width = width;
    this.arrange();
  }

  retheme(theme) {
    this.theme = theme;
    this.paint();
  }

  /** Colours by age change slowly. */
  tick() {
    this.ticks += 1;
    if (this.by === "age" && this.ticks % AGE_TICKS === 0) this.paint();
  }

  /** Lays out anew. */
  arrange() {
    const { world } = this.session.store;
    if (!world || this.width <= 0) return;
    const grain = 1 / (globalThis.devicePixelRatio || 1);
    const size = { width: this.width, height: MAP_HEIGHT, grain };
    this.layout = laidOut(world.segments ?? [], world.objects.values(), world.bins ?? {}, size);
    const { lanes, where } = this.layout;
    this.none.hidden = lanes.length > 0;
    this.el.classList.toggle("wb-unknown", !world.segments);
    this.el.classList.toggle("wb-nothing", !lanes.length);
    setText(this.none, world.words.none.segments);
    this.cursor = (this.cursor && where.get(this.cursor.row.id)) || null;
    if (this.hover) this.point(null);
    const said = lanes.map(({ segment }) => `${segment.owner}: ${filled(segment)}`);
    setAttr(this.canvas, "aria-label", `Map of the store, ${counted(world.count, "object")}. ${said.join("; ")}`);
    this.paint();
  }

  /** Draws lanes and extents. */
  paint() {
    const { layout, theme, session } = this;
    if (!layout || !theme) return;
    const now = session.store.now();
    const { world } = session.store;
    const coloring = (this.coloring ??= new Coloring(this.by, world.words));
    coloring.assign([...world.objects.values()].filter((row) => layout.where.has(row.id)), world.hues);
    const context = drawing(this.canvas, this.width, layout.height);
    for (const lane of layout.lanes) this.lane(context, lane, theme);
    context.fillStyle = theme.dim;
    context.globalAlpha = 0.42;
    for (const { x, w, line, share } of layout.grounds) {
      const high = Math.max(2, line.h * share);
      context.fillRect(x, line.y + line.h - high, w, high);
    }
    const palette = coloring.palette(theme.dark);
    const groups = palette.map(() => []);
    for (const rect of layout.rects) groups.at(coloring.of(rect.row, now)).push(rect);
    groups.forEach((rects, color) => {
      context.fillStyle = palette[color];
      for (const { x, w, line, row } of rects) {
        context.globalAlpha = row.movable === "freed" && this.by !== "movable" ? 0.5 : 1;
        // A seam between neighbours, where there is room for one.
        context.fillRect(x, line.y, w > 3 ? w - 1 : w, line.h);
      }
      context.globalAlpha = 1;
      this.write(context, rects, palette[color], theme);
    });
    this.key(theme);
    this.mark();
  }

  /** The names of objects that have room for them. */
  write(context, rects, color, theme) {
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    context.fillStyle = isDark(color) ? "#fff" : "#111";
    const written = new Set();
    for (const { x, w, line, row, count } of rects) {
      if (w < NAME_MIN || line.h < NAME_HEIGHT || count > 1 || written.has(row.id)) continue;
      const name = shortened(row.title, w - 2 * NAME_PAD, (text) => context.measureText(text).width);
      if (!name) continue;
      written.add(row.id);
      context.fillText(name, x + NAME_PAD, line.y + line.h / 2 + 0.5);
    }
  }

  lane(context, { segment, x, y, slot, lines }, theme) {
    context.textBaseline = "alphabetic";
    context.font = `500 11px ${theme.font}`;
    context.fillStyle = theme.fg;
    context.fillText(segment.owner, x, y + 11, slot);
    const from = context.measureText(segment.owner).width + 8;
    context.font = `11px ${theme.font}`;
    context.fillStyle = theme.dim;
    const choices = [filled(segment), bytes(segment.live)];
    const fits = choices.find((words) => from + context.measureText(words).width <= slot);
    if (fits) context.fillText(fits, x + from, y + 11);
    context.fillStyle = theme.track;
    for (const line of lines) context.fillRect(line.x, line.y, line.w, line.h);
  }

  key(theme) {
    const entries = this.layout.lanes.length ? this.coloring.legend(theme.dark) : [];
    const others = (this.session.store.world.rest ?? []).reduce((sum, { count }) => sum + (count ?? 0), 0);
    setChildren(this.legend, JSON.stringify([theme.dark, others, entries]), () => {
      const entry = (label, color, part = color ? "" : "wb-p-rest") => {
        const swatch = h("span", { class: `wb-swatch ${part}`, "aria-hidden": "true" });
        if (color) swatch.style.background = color;
        return h("li", {}, swatch, h("span", {}, label));
      };
      const known = entries.map(({ label, color }) => entry(label, color));
      if (others) known.push(entry(`${counted(others, "small one")}, by place`));
      if (entries.length) known.push(entry("no object", "", "wb-p-free"));
      return known;
    });
  }

  /** What stands out for now: selected, pointed at, new, just gone. */
  mark() {
    const { layout, theme, session } = this;
    if (!layout || !theme) return;
    const { store } = session;
    const context = drawing(this.over, this.width, layout.height);
    const pen = (color, width) => Object.assign(context, { strokeStyle: color, lineWidth: width });
    pen(theme.accent, 1.5);
    for (const id of store.fresh.keys()) this.outline(context, layout.where.get(id), 1);
    context.setLineDash([3, 3]);
    pen(theme.fg, 1.5);
    for (const { row } of store.vanished.values()) {
      for (const { x, y, w, h: high } of spot(layout, row)) {
        context.strokeRect(x + 0.75, y + 0.75, Math.max(w - 1.5, 1), high - 1.5);
      }
    }
    context.setLineDash([]);
    const selected = layout.where.get(store.selected);
    for (const [color, width] of [[theme.bg, 4], [theme.fg, 2]]) {
      pen(color, width);
      this.outline(context, selected, -1);
    }
    const at = this.hover ?? (document.activeElement === this.walk ? this.cursor : null);
    pen(theme.accent, 2);
    this.outline(context, at && (layout.where.get(at.row.id) ?? at), -1);
  }

  /** Around all pieces of an object, if there is one. */
  outline(context, rect, inset) {
    for (let piece = rect; piece; piece = piece.more) {
      const { x, w, line } = piece;
      const left = Math.max(x + inset, 1);
      const right = Math.min(Math.max(x + w - inset, left + 2), this.width - 1);
      context.strokeRect(left, line.y + inset, right - left, line.h - 2 * inset);
    }
  }

  /** What lies where the mouse is. */
  under(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.layout && hit(this.layout, event.clientX - box.left, event.clientY - box.top);
  }

  pointed(event) {
    const found = this.under(event);
    this.point(found?.rect ?? null, found?.ground ?? null);
  }

  clicked(event) {
    const found = this.under(event);
    if (!found?.rect) return;
    this.cursor = found.rect;
    this.session.select(found.rect.row.id);
  }

  pressed(event) {
    const way = WAYS[event.key];
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
      setText(this.said, `selected: ${this.cursor.row.title}`);
    } else if (event.key === "Escape" && this.hover) {
      this.point(null);
    } else {
      return;
    }
    taken(event);
  }

  follow(line) {
    if (line.y < this.walk.scrollTop) this.walk.scrollTop = line.y;
    const under = line.y + line.h - this.walk.clientHeight;
    if (under > this.walk.scrollTop) this.walk.scrollTop = under;
  }

  /** What a place is, in lines. */
  words({ row, count, bytes: together }) {
    if (count > 1) {
      return [`${counted(count, "object")} here`, bytes(together), `the largest: ${row.title}`];
    }
    const { store } = this.session;
    const born = row.born == null ? null : age(store.now() - row.born);
    return [
      row.title,
      typed(row),
      bytes(row.size) + (born ? `, ${born === "now" ? "just now" : `${born} old`}` : ""),
      [store.world.words.movable[row.movable], pinWords(row)].filter(Boolean).join(" · "),
    ];
  }

  /** Shows what is here beside it, or nothing. */
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
    this.tip.replaceChildren(...lines.map((line, i) => h("div", { class: TIP_CLASSES[i] }, line)));
    const { line, x, w } = spotted;
    const below = line.y + line.h + 6 - this.walk.scrollTop;
    const high = this.tip.offsetHeight;
    const left = Math.min(Math.max(x + w / 2 - 24, 0), Math.max(this.width - this.tip.offsetWidth, 0));
    const top = below + high < MAP_HEIGHT + 40 ? below : line.y - high - 6 - this.walk.scrollTop;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}
