// Lines of the pictures.

const THINNEST = 1.5;
const THICKEST = 12;

// From left to right, leaving and arriving level.
export function curve(from, to) {
  const bend = (to.x - from.x) / 2;
  return `M${at(from)}C${at({ x: from.x + bend, y: from.y })} ${at({ x: to.x - bend, y: to.y })} ${at(to)}`;
}

export function line(from, to) {
  return `M${at(from)}L${at(to)}`;
}

function at({ x, y }) {
  return x.toFixed(1) + "," + y.toFixed(1);
}

// The root makes a thousandth still visible beside the whole.
export function widthOf(rate, largest) {
  if (!rate || !largest) return THINNEST;
  return THINNEST + (THICKEST - THINNEST) * Math.sqrt(Math.min(1, rate / largest));
}

// The least round number over `value`: 1, 2 or 5 times a power of ten.
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((step) => step * power).find((number) => number >= value);
}
