// Figures in words: bytes, seconds, counts, ages. Pure; knows neither the page nor the world.

/** What stands where an engine can't tell. Never a zero. */
export const UNKNOWN = "not known here";

/** @param {number} n @returns {string} three figures, no trailing noughts */
function threeFigures(n) {
  return String(Number(n.toPrecision(3)));
}

/**
 * 1234567 → "1.23 MB": powers of 1000, as the package's own tables have them.
 * @param {number|null|undefined} n
 * @returns {string}
 */
export function bytes(n) {
  if (n == null) return UNKNOWN;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (Math.abs(n) < 999.5) return `${unit === "B" ? Math.round(n) : threeFigures(n)} ${unit}`;
    n /= 1000;
  }
  return `${Math.abs(n) < 999.5 ? threeFigures(n) : Math.round(n)} TB`;
}

/**
 * 0.00123 → "1.23 ms".
 * @param {number|null|undefined} s
 * @returns {string}
 */
export function seconds(s) {
  if (s == null) return UNKNOWN;
  if (s === 0) return "0 s";
  if (s < 999.5e-6) return `${threeFigures(s * 1e6)} µs`;
  if (s < 0.9995) return `${threeFigures(s * 1e3)} ms`;
  return s < 999.5 ? `${threeFigures(s)} s` : span(s);
}

/**
 * 1234567 → "1 234 567", with narrow spaces that don't break.
 * @param {number|null|undefined} n
 * @returns {string}
 */
export function count(n) {
  return n == null ? UNKNOWN : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/**
 * 1 → "1 object", 1200 → "1 200 objects".
 * @param {number|null|undefined} n
 * @param {string} noun
 * @param {string} [many]
 * @returns {string}
 */
export function counted(n, noun, many = `${noun}s`) {
  return `${count(n)} ${n === 1 ? noun : many}`;
}

/**
 * How long something took or runs, to the second: 75 → "1:15 min", 4000 → "1:06 h".
 * @param {number|null|undefined} s
 * @returns {string}
 */
export function span(s) {
  if (s == null) return UNKNOWN;
  const whole = Math.max(0, Math.floor(s));
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)} min`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)} h`;
}

/**
 * How old something is, coarsely, so that it seldom changes: "now", "12 s", "4 min", "3 h", "2 d".
 * @param {number|null|undefined} s
 * @returns {string}
 */
export function age(s) {
  if (s == null) return UNKNOWN;
  if (s < 1) return "now";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/**
 * 0.724 → "72 %"; small shares that are not nothing stay "< 1 %".
 * @param {number|null|undefined} share
 * @returns {string}
 */
export function percent(share) {
  if (share == null || Number.isNaN(share)) return UNKNOWN;
  if (share > 0 && share < 0.01) return "< 1 %";
  return `${Math.round(share * 100)} %`;
}

/**
 * 4.2e9 → "4.2 GB/s".
 * @param {number|null|undefined} perSecond
 * @returns {string}
 */
export function rate(perSecond) {
  return perSecond == null ? UNKNOWN : `${bytes(perSecond)}/s`;
}

/**
 * What an object is: its type, and what is known of it.
 * @param {{kind: string|null, detail: string|null}} row
 * @returns {string}
 */
export function typed(row) {
  return [row.kind ?? `type ${UNKNOWN}`, row.detail].filter(Boolean).join(" ");
}

/**
 * How an object is called: its names, or the variables that hold it, or its type.
 * @param {{name: string, held: string, kind: string}} row
 * @returns {string}
 */
export function title(row) {
  return row.name || row.held || row.kind || "object";
}
