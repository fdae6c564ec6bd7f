// Numbers for people, and a dash for what an older server does not tell. A <data> element keeps the exact one.

import { element, setAttribute, setText } from "./element.js";

const SPACE = "\u00a0";
const NOTHING = "\u2013";
const THOUSANDS = ["", "k", "M", "G", "T", "P"];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// Three digits that count: 1.23, 12.3, 123.
function digits(value) {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, step, units) {
  let power = 0;
  while (value >= step * 0.9995 && power < units.length - 1) {
    value /= step;
    power += 1;
  }
  return [value, units[power]];
}

export function count(value) {
  if (!Number.isFinite(value)) return NOTHING;
  if (value < 10000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  const [number, unit] = scaled(value, 1000, THOUSANDS);
  return digits(number) + SPACE + unit;
}

export function exact(value) {
  return value.toLocaleString("en");
}

export function rate(value) {
  if (!Number.isFinite(value)) return NOTHING;
  if (value < 0.05) return "0/s";
  if (value < 9.95) return value.toFixed(1) + "/s";
  if (value < 999.5) return value.toFixed(0) + "/s";
  const [number, unit] = scaled(value, 1000, THOUSANDS);
  return digits(number) + SPACE + unit + "/s";
}

export function bytes(value) {
  if (!Number.isFinite(value)) return NOTHING;
  const [number, unit] = scaled(value, 1024, BINARY);
  return (unit === "B" ? number.toFixed(0) : digits(number)) + SPACE + unit;
}

export function percent(share) {
  if (!Number.isFinite(share)) return NOTHING;
  return (share * 100).toFixed(share > 0 && share < 0.0995 ? 1 : 0) + SPACE + "%";
}

export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return NOTHING;
  if (milliseconds < 1000) return (Number.isInteger(milliseconds) ? milliseconds : digits(milliseconds)) + SPACE + "ms";
  const seconds = milliseconds / 1000;
  if (seconds < 60) return (seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)) + SPACE + "s";
  const whole = Math.floor(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([unit]) => whole >= unit);
  const [big, small] = [parts[first], parts[first + 1]];
  const rest = Math.floor((whole % big[0]) / small[0]);
  const head = Math.floor(whole / big[0]) + SPACE + big[1];
  return rest > 0 ? head + SPACE + rest + SPACE + small[1] : head;
}

// An element whose exact value is that of a field of the status.
export function data(field) {
  return element("data", { "data-field": field, value: "" });
}

export function setData(node, value, text) {
  const isKnown = Number.isFinite(value);
  setAttribute(node, "value", isKnown ? value : "");
  setAttribute(node, "title", isKnown ? exact(value) : null);
  setText(node, text);
}
