// Figures for people.

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Three digits. */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < BYTES.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${number(value)}\u00a0${BYTES[unit]}`;
}

/** Microseconds. */
export function micros(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return `${number(value)}\u00a0µs`;
  if (value < 1e6) return `${number(value / 1000)}\u00a0ms`;
  return `${number(value / 1e6)}\u00a0s`;
}

/** Seconds, as people say them. */
export function span(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** A time of day. */
export function clock(millis) {
  return new Date(millis).toLocaleTimeString("en-GB");
}

export function percent(part, whole) {
  return whole > 0 ? (part * 100) / whole : 0;
}
