// The plot of a history: rates above, what is queued below; of a listener, which queues nothing, the rates alone. A cursor reads numbers.

import { byId, element, setAttribute, setText, svg } from "./element.js";
import { roundUp } from "./geometry.js";
import { count, duration, rate } from "./number.js";

const EDGE = { left: 58, right: 8, top: 8, bottom: 20 };
// Of the height of the plot, when the rest shows what is queued.
const RATES_SHARE = 0.68;
const GAP = 14;
const RATES = ["received", "delivered", "dropped"];
const SHOWN = { received: rate, delivered: rate, dropped: rate, queued: count };

export class Plot {
  constructor() {
    this.columns = {};
    this.last = 0;
    this.of = "";
    this.why = "";
    this.seconds = 300;
    this.cursor = null;
    this.plot = byId("plot");
    this.svg = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.plot.append(this.svg);
    this.parts = new Map();
    byId("range").addEventListener("change", (event) => {
      this.seconds = Number(event.target.value);
      this.cursor = null;
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.moveTo(null));
    this.plot.addEventListener("blur", () => this.moveTo(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
  }

  // Columns by name, the newest sample last; `last` is its number, and `of` names what they are of. `why` says why there are none.
  show(columns, last, of, why = "") {
    this.columns = columns;
    this.last = last;
    this.of = of;
    this.why = why;
    this.draw();
  }

  // The samples shown, several to a pixel joined: rates by their largest, so that no burst is lost.
  shown(name, width) {
    const samples = (this.columns[name] ?? []).slice(-this.seconds);
    const step = Math.max(1, Math.ceil(this.seconds / width));
    // Steps begin at numbers that stay the same while time goes on, or every peak would flicker.
    const first = this.last - samples.length;
    const points = [];
    for (let from = 0; from < samples.length; ) {
      const until = Math.min(samples.length, from + step - ((first + from) % step));
      points.push({ ago: samples.length - until, value: Math.max(...samples.slice(from, until)) });
      from = until;
    }
    return points;
  }

  draw() {
    const { width, height } = this.plot.getBoundingClientRect();
    if (width < 50) return;
    this.size = { width, height };
    setAttribute(this.svg, "viewBox", `0 0 ${width} ${height}`);
    const inner = height - EDGE.top - EDGE.bottom - GAP;
    const hasQueue = this.columns.queued !== undefined;
    const rates = { top: EDGE.top, height: hasQueue ? inner * RATES_SHARE : inner + GAP };
    const queue = { top: EDGE.top + rates.height + GAP, height: inner * (1 - RATES_SHARE) };
    const [received, delivered, dropped, queued] =
      ["received", "delivered", "dropped", "queued"].map((name) => this.shown(name, width - EDGE.left - EDGE.right));
    const most = roundUp(Math.max(1, ...[...received, ...delivered, ...dropped].map((point) => point.value)));
    const deepest = roundUp(Math.max(1, ...queued.map((point) => point.value)));
    this.axis({ name: "rates", band: rates, most, show: rate, lowest: "0", between: [0.5] });
    this.axis({ name: "queue", band: queue, most: deepest, show: count, lowest: "queued", between: [], isHidden: !hasQueue });
    this.times(height - EDGE.bottom);
    this.shape("received", this.area(received, rates, most), "area");
    this.shape("received-line", this.path(received, rates, most), "line");
    this.shape("delivered", this.path(delivered, rates, most), "line");
    this.shape("dropped", this.area(dropped, rates, most), "area");
    this.shape("queued", this.area(queued, queue, deepest), "area");
    this.showCursor(height);
    this.tell();
  }

  x(ago) {
    return this.size.width - EDGE.right - ago / (this.seconds - 1) * (this.size.width - EDGE.left - EDGE.right);
  }

  path(points, { top, height }, most) {
    const y = (value) => top + height * (1 - value / most);
    return points.map(({ ago, value }, place) => (place ? "L" : "M") + this.x(ago).toFixed(1) + "," + y(value).toFixed(1)).join("");
  }

  area(points, band, most) {
    if (points.length === 0 || points.every((point) => point.value === 0)) return "";
    const floor = (band.top + band.height).toFixed(1);
    return `${this.path(points, band, most)}V${floor}H${this.x(points[0].ago).toFixed(1)}Z`;
  }

  part(key, make) {
    let node = this.parts.get(key);
    if (!node) {
      node = make();
      this.parts.set(key, node);
      this.svg.append(node);
    }
    return node;
  }

  shape(name, path, kind) {
    setAttribute(this.part(name, () => svg("path", { class: kind, "data-series": name.replace("-line", "") })), "d", path);
  }

  axis({ name, band: { top, height }, most, show, lowest, between, isHidden = false }) {
    for (const share of [0, ...between, 1]) {
      const y = (top + height * (1 - share)).toFixed(1);
      const grid = this.part("grid-" + name + share, () => svg("line", { class: "grid" }));
      for (const [attribute, value] of [["x1", EDGE.left], ["x2", this.size.width - EDGE.right], ["y1", y], ["y2", y]]) setAttribute(grid, attribute, value);
      const label = this.part("label-" + name + share, () => svg("text", { class: "tick", "text-anchor": "end" }));
      setAttribute(label, "x", EDGE.left - 6);
      setAttribute(label, "y", Number(y) + 4);
      setText(label, share === 0 ? lowest : show(most * share));
      for (const node of [grid, label]) setAttribute(node, "visibility", isHidden ? "hidden" : null);
    }
  }

  times(y) {
    const isNarrow = this.size.width < 500;
    for (const share of [1, 0.8, 0.6, 0.4, 0.2, 0]) {
      const label = this.part("time-" + share, () => svg("text", { class: "tick" }));
      const anchor = share === 0 ? "end" : share === 1 ? "start" : "middle";
      setAttribute(label, "text-anchor", anchor);
      setAttribute(label, "x", this.x(share * (this.seconds - 1)).toFixed(1));
      setAttribute(label, "y", y + 15);
      setAttribute(label, "visibility", isNarrow && (share === 0.8 || share === 0.4) ? "hidden" : null);
      setText(label, share === 0 ? "now" : "\u2212" + duration(this.seconds * share * 1000));
    }
  }

  point(event) {
    const inner = this.size.width - EDGE.left - EDGE.right;
    const share = (this.size.width - EDGE.right - (event.clientX - this.plot.getBoundingClientRect().left)) / inner;
    this.moveTo(share * (this.seconds - 1));
  }

  key(event) {
    const step = Math.round(this.seconds / 60);
    const moves = { ArrowLeft: step, ArrowRight: -step, Home: this.seconds, End: -this.seconds };
    if (event.key === "Escape") return this.moveTo(null);
    if (!(event.key in moves)) return undefined;
    event.preventDefault();
    return this.moveTo((this.cursor ?? 0) + moves[event.key]);
  }

  moveTo(ago) {
    const oldest = Math.min(this.seconds, Math.max(0, ...Object.values(this.columns).map((values) => values.length))) - 1;
    this.cursor = ago === null || oldest < 0 ? null : Math.round(Math.min(oldest, Math.max(0, ago)));
    if (this.size) this.showCursor(this.size.height);
    this.tell();
  }

  showCursor(height) {
    const cursor = this.part("cursor", () => svg("line", { class: "cursor", y1: EDGE.top }));
    setAttribute(cursor, "y2", height - EDGE.bottom);
    setAttribute(cursor, "visibility", this.cursor === null ? "hidden" : "visible");
    for (const name of ["x1", "x2"]) setAttribute(cursor, name, this.x(this.cursor ?? 0).toFixed(1));
  }

  // The numbers under the cursor, or of the last second.
  tell() {
    const ago = this.cursor ?? 0;
    const readout = byId("readout");
    if (readout.children.length === 0) {
      for (const name of ["when", ...Object.keys(SHOWN)]) {
        readout.append(element("span", { "data-series": name }, element("b"), " ", element("span")));
      }
    }
    const said = [["", this.why || (ago === 0 ? "last second" : duration(ago * 1000) + " ago")]];
    for (const [name, show] of Object.entries(SHOWN)) said.push([name, show(this.columns[name]?.at(-1 - ago) ?? 0)]);
    said.forEach(([name, text], place) => {
      setText(readout.children[place].firstChild, name);
      setText(readout.children[place].lastChild, text);
      setAttribute(readout.children[place], "hidden", name !== "" && this.columns[name] === undefined);
    });
    const first = RATES.find((name) => this.columns[name]) ?? "received";
    const most = Math.max(0, ...(this.columns[first] ?? []).slice(-this.seconds));
    const known = said.filter(([name]) => name === "" || this.columns[name]);
    setAttribute(this.plot, "aria-label", "Rates of " + this.of + ", the last " + duration(this.seconds * 1000) + ": " + known.map((text) => text.join(" ")).join(", ") + "; the most " + first + " was " + rate(most) + ". Arrow keys move through time.");
  }
}
