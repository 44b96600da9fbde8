// Figures in words: bytes, seconds, counts, ages, as the kernel's format has them: one file of
// cases (tests/unit/report/format_cases.json) holds both. Pure; knows neither the page nor the world.

/** What stands where an engine can't tell. Never a zero. */
export const UNKNOWN = "not known here";

/** null, undefined and NaN are not known; all else is put into words. */
const known = (words) => (n, ...more) => (n == null || Number.isNaN(n) ? UNKNOWN : words(n, ...more));

const threeFigures = (n) => String(Number(n.toPrecision(3)));
const two = (n) => String(n).padStart(2, "0");

/** 1234567 → "1.23 MB": powers of 1000. */
export const bytes = known((n) => {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (Math.abs(n) < 999.5) return `${unit === "B" ? Math.round(n) : threeFigures(n)} ${unit}`;
    n /= 1000;
  }
  return `${Math.abs(n) < 999.5 ? threeFigures(n) : Math.round(n)} TB`;
});

/** 4.2e9 → "4.2 GB/s". */
export const rate = known((n) => `${bytes(n)}/s`);

/** How long something took: 0.00123 → "1.23 ms", 1330 → "22 min". */
export const seconds = known((s) => {
  if (s === 0) return "0 s";
  if (s < 999.5e-6) return `${threeFigures(s * 1e6)} µs`;
  if (s < 0.9995) return `${threeFigures(s * 1e3)} ms`;
  return s < 999.5 ? `${threeFigures(s)} s` : age(s);
});

/** How old something is, in whole units, each from two of it on: "now", "75 s", "22 min", "3 h", "2 days". */
export const age = known((s) => {
  const [length, unit] = [[86400, "days"], [3600, "h"], [60, "min"]].find(([each]) => s >= 2 * each) ?? [1, "s"];
  return s < 1 ? "now" : `${Math.floor(s / length)} ${unit}`;
});

/** How long something has run so far: 75 → "1 min 15 s", 4020 → "1 h 07 min". */
export const elapsed = known((s) => {
  const whole = Math.max(0, Math.floor(s));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  if (whole < 60) return `${whole} s`;
  return hours ? `${hours} h ${two(minutes)} min` : `${minutes} min ${two(whole % 60)} s`;
});

/** 1234567 → "1 234 567". */
export const count = known((n) => String(n).replace(/\B(?=(\d{3})+$)/g, " "));

/** 1 → "1 object", 1200 → "1 200 objects". */
export function counted(n, noun, many = `${noun}s`) {
  return n == null ? `${many} ${UNKNOWN}` : `${count(n)} ${n === 1 ? noun : many}`;
}

/** 0.724 → "72 %"; what is more than nothing is never 0 %. */
export const share = known((part) => (part > 0 && part < 0.01 ? "< 1 %" : `${Math.round(part * 100)} %`));

/** What an object is: its type, and what is known of it. */
export function typed(row) {
  return [row.kind ?? `type ${UNKNOWN}`, row.detail].filter(Boolean).join(" ");
}
