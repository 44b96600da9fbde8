// The map's geometry: segments → lanes to one scale, extents → rectangles, and back from a point to
// an object. Pure: no canvas, no colours.

/** Parts a segment's small objects are counted in. */
const BIN_COUNT = 128;
const LABEL = 17;
const LANE_GAP = 9;
const ROW_GAP = 2;
const LANE_MIN = 104;
const ROW_MIN = 11;
/** Of so few objects lines are high enough to be written on. */
const FEW = 60;
const ROW_FEW = 22;
const ROW_MAX = 30;
const LANES_SIDE = 14;

/**
 * @typedef {object} Rect a piece of the map
 * @property {number} x
 * @property {number} w
 * @property {Line} line
 * @property {object} row the object, or the largest of several too narrow to be told apart
 * @property {number} count how many objects it stands for
 * @property {number} bytes of them together
 * @property {Rect|null} more the object's next piece, on the line below
 * @typedef {object} Line {y, h, x, w, from, rects}: a row of a lane, from byte `from` on
 * @typedef {object} Lane {segment, x, y, slot, lines}; the label stands at (x, y) and has `slot` pixels
 * @typedef {object} Layout {lanes, lines, rects, grounds, where, height, scale}
 */

/** Three binary figures, upwards: a segment that grows shall not move all others at each step. */
function steady(end) {
  const step = 2 ** Math.max(Math.floor(Math.log2(Math.max(end, 1))) - 2, 0);
  return Math.ceil(end / step) * step;
}

/** The bytes drawn of a segment: up to its last object, and what can be reused beyond it. */
const reach = ({ disk, end, granted }) => (disk ? end : Math.max(end, granted ?? 0));

/** Segments on shelves: long ones over several lines, short ones beside each other. */
function shelved(segments, width, scale) {
  const shelves = [];
  let room = 0;
  for (const segment of segments) {
    const lines = Math.max(1, Math.ceil(reach(segment) / scale - 1e-9));
    const drawn = lines > 1 ? width : (width * reach(segment)) / scale;
    const slot = Math.min(width, Math.max(drawn, LANE_MIN));
    if (lines === 1 && slot <= room) {
      shelves.at(-1).push({ segment, lines, slot, x: width - room });
      room -= slot + LANES_SIDE;
    } else {
      shelves.push([{ segment, lines, slot, x: 0 }]);
      room = lines === 1 ? width - slot - LANES_SIDE : 0;
    }
  }
  return { shelves, lines: shelves.reduce((sum, [first]) => sum + first.lines, 0) };
}

/** As many bytes a line as make the map fill the height: the finer the better, but for few objects. */
function scaled(segments, width, height, objects) {
  const least = objects <= FEW ? ROW_FEW : ROW_MIN;
  const longest = steady(Math.max(...segments.map(reach)));
  const high = ({ shelves, lines }, row) =>
    shelves.length * (LABEL + LANE_GAP) - LANE_GAP + lines * (row + ROW_GAP);
  let folds = Math.max(1, Math.floor(height / (least + ROW_GAP)));
  let found = shelved(segments, width, longest / folds);
  while (folds > 1 && high(found, least) > height) {
    folds -= 1;
    found = shelved(segments, width, longest / folds);
  }
  const spare = (height - high(found, 0)) / found.lines;
  const row = Math.max(ROW_MIN, Math.min(ROW_MAX, Math.floor(spare)));
  return { ...found, scale: longest / folds, row };
}

/**
 * The layout of segments, rows and bins as a world has them; rows without an extent are left out. The
 * size is in pixels, its height may be exceeded; `grain` is the width of a device's pixel.
 */
export function laidOut(segments, rows, bins, { width, height, grain = 1 }) {
  const drawn = segments.filter((segment) => reach(segment) > 0);
  drawn.sort((a, b) => Number(a.disk) - Number(b.disk)); // stable: otherwise as the kernel has them
  const layout = { lanes: [], lines: [], rects: [], grounds: [], where: new Map(), height, scale: 1 };
  if (!drawn.length || width <= 0) return layout;
  const extents = bySegment(rows);
  const { shelves, scale, row } = scaled(drawn, width, height, [...extents.values()].flat().length);
  layout.scale = scale;
  let y = 0;
  for (const shelf of shelves) {
    for (const { segment, lines, slot, x } of shelf) {
      const room = shelf.length > 1 ? slot : width; // beside each other all say as much
      const lane = { segment, x, y, slot: room, lines: [] };
      for (let line = 0; line < lines; line += 1) {
        const from = line * scale;
        const w = Math.max((width * Math.min(reach(segment) - from, scale)) / scale, grain);
        lane.lines.push({ x, y: y + LABEL + line * (row + ROW_GAP), w, h: row, from, rects: [] });
      }
      layout.lanes.push(lane);
      layout.lines.push(...lane.lines);
    }
    y += LABEL + shelf[0].lines * (row + ROW_GAP) + LANE_GAP;
  }
  layout.height = Math.max(height, y - LANE_GAP);
  for (const lane of layout.lanes) {
    const here = extents.get(lane.segment.id) ?? [];
    place(layout, lane, here, width / scale, grain);
    ground(layout, lane, here, bins?.[lane.segment.id], width / scale, grain);
  }
  return layout;
}

/** Rows by segment, in the order of their places. */
function bySegment(rows) {
  const found = new Map();
  for (const row of rows) {
    if (!row.seg || !row.len) continue;
    if (!found.has(row.seg)) found.set(row.seg, []);
    found.get(row.seg).push(row);
  }
  for (const list of found.values()) list.sort((a, b) => a.off - b.off);
  return found;
}

/** Puts extents on the lines of their lane; those under a pixel share one. */
function place(layout, lane, extents, perByte, grain) {
  const { scale } = layout;
  for (const row of extents) {
    const end = Math.min(row.off + row.len, lane.segment.end);
    let former = null;
    for (let index = Math.floor(row.off / scale); index * scale < end; index += 1) {
      const line = lane.lines[index];
      if (!line) break;
      const left = line.x + (Math.max(row.off, line.from) - line.from) * perByte;
      const right = line.x + (Math.min(end, line.from + scale) - line.from) * perByte;
      const x = Math.round(left / grain) * grain;
      const w = Math.max(Math.round(right / grain) * grain - x, grain);
      const last = line.rects.at(-1);
      let rect;
      if (last && x < last.x + last.w && w <= grain && last.w <= grain) {
        rect = last;
        rect.count += 1;
        rect.bytes += row.len;
        if (row.len > rect.row.len) rect.row = row;
      } else {
        rect = { x, w, line, row, count: 1, bytes: row.len, more: null };
        line.rects.push(rect);
        layout.rects.push(rect);
      }
      if (former) former.more = rect;
      else layout.where.set(row.id, rect);
      former = rect;
    }
  }
}

/** What isn't listed: how full each part of the lane is beyond the listed extents. */
function ground(layout, lane, extents, counts, perByte, grain) {
  if (!counts) return;
  const { scale } = layout;
  const step = lane.segment.end / BIN_COUNT;
  const room = new Float64Array(BIN_COUNT).fill(step);
  for (const { off, len } of extents) {
    for (let bin = Math.floor(off / step); bin < BIN_COUNT && bin * step < off + len; bin += 1) {
      room[bin] -= Math.min(off + len, (bin + 1) * step) - Math.max(off, bin * step);
    }
  }
  counts.forEach((bytes, bin) => {
    if (!bytes) return;
    const share = Math.min(1, bytes / Math.max(room[bin], bytes));
    const [from, to] = [bin * step, (bin + 1) * step];
    for (let index = Math.floor(from / scale); index * scale < to - 1e-6; index += 1) {
      const line = lane.lines[index];
      if (!line) break;
      const x = line.x + Math.max(from - line.from, 0) * perByte;
      const w = line.x + Math.min(to - line.from, scale) * perByte - x;
      layout.grounds.push({ x, w: Math.max(w, grain), line, share, bytes });
    }
  });
}

/** What lies at a point: {rect, ground}, or null. So many pixels beside an object still mean it. */
export function hit(layout, x, y, beside = 2) {
  for (const line of layout.lines) {
    if (y < line.y || y >= line.y + line.h + ROW_GAP) continue;
    if (x < line.x - beside || x > line.x + line.w + beside) continue;
    const rect = nearest(line, x);
    const far = rect ? Math.max(rect.x - x, x - rect.x - rect.w, 0) : Infinity;
    if (far <= beside) return { rect, ground: null };
    const found = layout.grounds.find((g) => g.line === line && x >= g.x && x < g.x + g.w);
    return { rect: null, ground: found ?? null };
  }
  return null;
}

/** Where an object would lie, in pieces {x, y, w, h}: for one that has just gone. */
export function spot(layout, row) {
  const lane = layout.lanes.find(({ segment }) => segment.id === row.seg);
  if (!lane || !row.len) return [];
  const pieces = [];
  for (const line of lane.lines) {
    const perByte = line.w / Math.min(reach(lane.segment) - line.from, layout.scale);
    const from = Math.max(row.off - line.from, 0) * perByte;
    const to = Math.min((row.off + row.len - line.from) * perByte, line.w);
    if (to > from) pieces.push({ x: line.x + from, y: line.y, w: to - from, h: line.h });
  }
  return pieces;
}

/** The nearest rectangle on a line, or null. */
function nearest(line, x) {
  let [low, high] = [0, line.rects.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (line.rects[middle].x <= x) low = middle;
    else high = middle - 1;
  }
  const [left, right] = [line.rects[low], line.rects[low + 1]];
  if (!left) return null;
  return right && right.x - x < Math.max(x - left.x - left.w, 0) ? right : left;
}

/** Where "left", "right", "up", "down", "first" or "last" leads from a rectangle, or from nowhere. */
export function step(layout, from, way) {
  const { rects, lines } = layout;
  if (!from || way === "first") return rects[0] ?? null;
  if (way === "last") return rects.at(-1) ?? null;
  if (way === "left" || way === "right") {
    return rects[rects.indexOf(from) + (way === "left" ? -1 : 1)] ?? from;
  }
  const by = way === "up" ? -1 : 1;
  let best = null;
  for (const line of lines) {
    // A line above or below with something on it: the nearest; of those beside each other, the one below x.
    if (!line.rects.length || (line.y - from.line.y) * by <= 0) continue;
    const rect = nearest(line, from.x + from.w / 2);
    const far = Math.abs(line.y - from.line.y) * 1e4 + Math.abs(rect.x - from.x);
    if (!best || far < best.far) best = { rect, far };
  }
  return best?.rect ?? from;
}
