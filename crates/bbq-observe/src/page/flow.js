// The picture of the flow: listeners, spool, sinks; and workers with their lanes, if somebody wants to see them or one has a problem. The
// boxes are lists of HTML, for every reader; the lines between them are drawn behind, as wide as their rate. In a narrow window the boxes
// stand below each other, along a rail.

import { byId, element, setAttribute, setText, svg } from "./element.js";
import { curve, line, widthOf } from "./geometry.js";
import { addressOf } from "./listeners.js";
import { timeLeft } from "./now.js";
import { bytes, count, data, duration, percent, rate, setData } from "./number.js";
import { dropsOf, hasProblem, isFailing } from "./problems.js";
import { sum } from "./rates.js";
import { cannotRead } from "./readers.js";

// More boxes than this are one box: the tables have each of them.
const BOXES_MAX = 6;
// The scale falls slowly, so that the widths can be compared over a minute.
const PEAK_DECAY = 0.985;
const RAIL = 9;
const MARKS = { problem: "\u25b2", notice: "\u25c6" };

export class Flow {
  constructor() {
    this.picture = byId("flow-picture");
    this.edges = byId("edges");
    this.stages = Object.fromEntries(["listeners", "workers", "spool", "sinks"].map((name) => [name, new Stage(name)]));
    this.lines = new Map();
    this.peak = 0;
    this.onChoice = () => {};
    this.picture.addEventListener("click", (event) => this.choose(event));
    this.picture.addEventListener("keydown", (event) => {
      // Space would scroll.
      if ((event.key === "Enter" || event.key === " ") && this.choose(event)) event.preventDefault();
    });
    this.showWorkers = byId("show-workers");
    this.wantsWorkers = this.showWorkers.checked;
    this.showWorkers.addEventListener("change", () => {
      this.wantsWorkers = this.showWorkers.checked;
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.picture);
  }

  // Whether there was one to choose.
  choose(event) {
    const box = event.target.closest("li[data-subject]");
    if (box) this.onChoice(box.dataset.subject);
    return box !== null;
  }

  update(status, rates) {
    const listeners = status.listeners.map((listener, index) => listenerBox(listener, index, rates, hasProblem(status, listener)));
    const readers = (status.readers ?? []).map((reader, index) => readerBox(reader, index, rates));
    const sources = [...listeners, ...readers];
    const workers = status.workers.map((worker, index) => workerBox(worker, status.spool.lanes[index], index, rates));
    const sinks = status.sinks.map((sink, index) => sinkBox(sink, index, rates));
    this.total = sum(sources.map((box) => box.rate ?? 0));
    this.peak = Math.max(this.peak * PEAK_DECAY, this.total, ...sinks.map((box) => box.rate ?? 0));
    this.stages.listeners.update(few(sources, readers.length ? "sources" : "listeners"));
    this.stages.workers.update(few(workers, "workers"));
    this.stages.spool.update([spoolBox(status)]);
    this.stages.sinks.update(few(sinks, "sinks"));
    this.hasWorkerProblem = workers.some((box) => box.level !== undefined);
    this.draw();
  }

  draw() {
    if (this.total === undefined) return;
    const showsWorkers = this.wantsWorkers || this.hasWorkerProblem;
    this.showWorkers.checked = showsWorkers;
    this.showWorkers.disabled = this.hasWorkerProblem;
    setAttribute(this.showWorkers.parentElement, "title", this.hasWorkerProblem ? "shown because of a problem" : null);
    byId("stage-workers").hidden = !showsWorkers;
    setAttribute(this.picture, "data-workers", showsWorkers);
    const frame = this.picture.getBoundingClientRect();
    setAttribute(this.edges, "viewBox", `0 0 ${frame.width} ${frame.height}`);
    const boxes = Object.fromEntries(Object.entries(this.stages).map(([name, stage]) => [name, stage.places(frame)]));
    if (!showsWorkers) boxes.workers = [];
    // The spool is below the listeners then, not beside them.
    const isNarrow = boxes.listeners.length > 0 && boxes.spool[0].left < boxes.listeners[0].right;
    const wanted = isNarrow ? rail(boxes, this.total) : fan(boxes, this.total);
    for (const edge of wanted) this.drawEdge(edge);
    const keys = new Set(wanted.map((edge) => edge.key));
    for (const [key, drawn] of this.lines) {
      if (!keys.has(key)) {
        drawn.group.remove();
        this.lines.delete(key);
      }
    }
  }

  drawEdge({ key, path, rate: pace, level, label, kind, scale = 1 }) {
    let drawn = this.lines.get(key);
    if (!drawn) {
      const [base, moving, text] = [svg("path", { class: "base" }), svg("path", { class: "moving" }), svg("text")];
      drawn = { group: svg("g", {}, base, moving, text), base, moving, text };
      this.lines.set(key, drawn);
      this.edges.append(drawn.group);
    }
    const width = Math.max(1.5, widthOf(pace, this.peak) * scale);
    setAttribute(drawn.group, "data-level", level ?? (pace > 0.05 ? "flowing" : "idle"));
    setAttribute(drawn.group, "data-kind", kind);
    setAttribute(drawn.base, "d", path);
    setAttribute(drawn.base, "stroke-width", width.toFixed(1));
    setAttribute(drawn.moving, "d", path);
    setAttribute(drawn.moving, "stroke-width", Math.max(1, width / 3).toFixed(1));
    setAttribute(drawn.moving, "data-speed", pace > this.peak / 3 ? "fast" : "slow");
    setText(drawn.text, label?.text ?? "");
    if (label) {
      setAttribute(drawn.text, "x", label.x.toFixed(1));
      setAttribute(drawn.text, "y", (label.y - width / 2 - 5).toFixed(1));
      setAttribute(drawn.text, "text-anchor", label.anchor);
    }
  }
}

// Side by side: the lines of the listeners come together in the spool, or before, and part for the workers.
function fan({ listeners, workers, spool, sinks }, total) {
  const store = spool[0];
  const meet = workers.length && listeners.length ? { x: (listeners[0].right + workers[0].left) / 2, y: store.middle } : null;
  const edges = [];
  for (const box of listeners) {
    const from = { x: box.right, y: box.middle };
    edges.push({ key: box.key, path: curve(from, meet ?? { x: store.left, y: store.middle }), rate: box.rate, level: box.edgeLevel, label: { text: rate(box.rate), x: box.right + 7, y: box.middle, anchor: "start" } });
    if (box.lost > 0) {
      const fall = `M${box.right},${box.bottom - 9}h9q6,0 6,6v11m-4,-5l4,5l4,-5`;
      edges.push({ key: box.key + "-lost", path: fall, rate: 0, level: "problem", kind: "lost" });
    }
  }
  for (const box of workers) {
    if (meet) {
      const enter = curve(meet, { x: box.left, y: box.middle });
      edges.push({ key: box.key + "-in", path: enter, rate: box.rate, level: box.edgeLevel });
    }
    const leave = curve({ x: box.right, y: box.middle }, { x: store.left, y: store.middle });
    edges.push({ key: box.key + "-out", path: leave, rate: box.rate, level: box.edgeLevel, label: { text: rate(box.rate), x: box.right + 7, y: box.middle, anchor: "start" } });
  }
  if (meet && listeners.length > 1) {
    const bar = line({ x: meet.x - 1, y: meet.y }, { x: meet.x + 1, y: meet.y });
    edges.push({ key: "meet", path: bar, rate: total, kind: "meet" });
  }
  for (const box of sinks) {
    const path = curve({ x: store.right, y: store.middle }, { x: box.left, y: box.middle });
    edges.push({ key: box.key, path, rate: box.rate, level: box.edgeLevel, label: { text: rate(box.rate), x: box.left - 7, y: box.middle, anchor: "end" } });
  }
  return edges;
}

// Below each other: a rail at the left, a branch to each box.
function rail({ listeners, workers, spool, sinks }, total) {
  const all = [...listeners, ...workers, ...spool, ...sinks];
  const branches = all.map((box) =>
    ({ key: box.key, path: line({ x: RAIL, y: box.middle }, { x: box.left, y: box.middle }), rate: box.rate, level: box.edgeLevel, scale: 0.5 }));
  const ends = [all[0], all.at(-1)].map((box) => ({ x: RAIL, y: box.middle }));
  return [{ key: "rail", path: line(...ends), rate: total, scale: 0.5 }, ...branches];
}

function listenerBox(listener, index, rates, isBad) {
  const pace = rates.of((status) => status.listeners[index]?.ledger.received);
  const lost = rates.of((status) => status.listeners[index] && dropsOf(status.listeners[index]));
  const address = addressOf(listener);
  // A listener without a name of its own is called by its SPEC.
  let detail = listener.name.includes(address) ? "" : listener.spec.split(":")[0] + " " + address;
  if (lost > 0) detail = "dropping " + rate(lost);
  else if (listener.foreign.length > 0) detail = "shares its address";
  else if (isBad) detail = "see the problem";
  // What was dropped does not go on.
  const taken = pace === null ? null : Math.max(0, pace - (lost ?? 0));
  const subject = new URLSearchParams({ listener: listener.name });
  return { key: "listener-" + index, subject, name: listener.name, rate: taken, lost: lost ?? 0, detail, level: isBad || lost > 0 ? "problem" : undefined };
}

function readerBox(reader, index, rates) {
  const pace = rates.of((status) => status.readers?.[index]?.received);
  const isBad = cannotRead(reader);
  const detail = isBad ? "see the problem" : count(reader.files) + (reader.files === 1 ? " file" : " files");
  return { key: "reader-" + index, name: reader.name, rate: pace, lost: 0, detail, level: isBad ? "problem" : undefined };
}

function workerBox(worker, lane, index, rates) {
  const pace = rates.of((status) => status.spool.lanes[index]?.records);
  const stuck = worker.stalled;
  const lame = lane && lane.condition !== "writing";
  let detail = count(worker.connections) + (worker.connections === 1 ? " connection" : " connections");
  if (lame) detail = "lane " + lane.condition;
  if (stuck) detail = "stuck for " + duration(worker.heartbeat_ms);
  const level = stuck || lame ? "problem" : undefined;
  return { key: "worker-" + index, name: "worker " + worker.index, rate: pace, detail, level, edgeLevel: level };
}

function spoolBox({ spool, ledger }) {
  const share = spool.bytes / spool.bytes_max;
  const full = share > 0.9;
  const left = timeLeft(spool);
  const detail = percent(share) + " of " + bytes(spool.bytes_max) + (left ? ", " + left : "");
  return { key: "spool", name: count(ledger.queued) + " queued", rate: null, detail, share, level: full ? "notice" : undefined };
}

function sinkBox(sink, index, rates) {
  const pace = rates.of((status) => status.sinks[index]?.delivered);
  const failing = isFailing(sink);
  let detail = sink.queued ? count(sink.queued) + " queued, " + duration(Math.round(sink.lag_seconds * 1000)) + " behind" : "caught up";
  if (sink.paused) detail = "paused, " + count(sink.queued) + " queued";
  else if (failing) detail = "cannot deliver, " + count(sink.queued) + " queued";
  const level = sink.paused ? "notice" : failing ? "problem" : undefined;
  const subject = new URLSearchParams({ sink: sink.name });
  return { key: "sink-" + index, subject, name: sink.name, rate: pace, detail, level, edgeLevel: level === "problem" ? level : undefined };
}

// The first boxes and those with a problem, and one for the rest.
function few(boxes, word) {
  if (boxes.length <= BOXES_MAX) return boxes;
  const weight = (box) => (box.level === "problem" ? Infinity : box.rate ?? 0);
  const shown = boxes.toSorted((a, b) => weight(b) - weight(a)).slice(0, BOXES_MAX - 1);
  const rest = boxes.filter((box) => !shown.includes(box));
  const total = (field) => sum(rest.map((box) => box[field] ?? 0));
  // The worst of theirs.
  const level = ["problem", "notice"].find((level) => rest.some((box) => box.level === level));
  const some = { key: word + "-rest", name: rest.length + " more " + word, detail: "see the table", rate: total("rate"), lost: total("lost"), level };
  return [...boxes.filter((box) => shown.includes(box)), some];
}

// A column of boxes.
class Stage {
  constructor(name) {
    this.list = byId("stage-" + name).querySelector("ul");
    this.shown = new Map();
    this.boxes = [];
  }

  update(boxes) {
    this.boxes = boxes;
    for (const box of boxes) {
      let item = this.shown.get(box.key);
      if (!item) {
        item = newBox(box);
        this.shown.set(box.key, item);
      }
      setAttribute(item.line, "data-level", box.level);
      setAttribute(item.line, "data-subject", box.subject);
      setAttribute(item.name, "role", box.subject ? "button" : null);
      setAttribute(item.name, "tabindex", box.subject ? "0" : null);
      setAttribute(item.name, "title", box.subject ? box.name + "; click for its history" : box.name);
      setText(item.mark, MARKS[box.level] ?? "");
      setText(item.name, box.name);
      setText(item.detail, box.detail);
      if (item.pace) setData(item.pace, box.rate, rate(box.rate));
      if (item.gauge) item.gauge.style.inlineSize = Math.min(100, box.share * 100).toFixed(1) + "%";
    }
    const lines = boxes.map((box) => this.shown.get(box.key).line);
    if (lines.length !== this.list.children.length || lines.some((line, place) => this.list.children[place] !== line)) {
      this.list.replaceChildren(...lines);
    }
    for (const key of this.shown.keys()) {
      if (!boxes.some((box) => box.key === key)) this.shown.delete(key);
    }
  }

  // Where the boxes are in the picture.
  places(frame) {
    return this.boxes.map((box) => {
      const { left, right, top, bottom } = this.shown.get(box.key).line.getBoundingClientRect();
      const place = { left: left - frame.left, right: right - frame.left, bottom: bottom - frame.top };
      return { ...box, ...place, middle: (top + bottom) / 2 - frame.top };
    });
  }
}

function newBox(box) {
  const mark = element("span", { class: "mark", "aria-hidden": "true" });
  const [name, detail] = [element("span", { class: "name" }), element("span", { class: "detail" })];
  const pace = box.rate === null && box.key === "spool" ? null : data(null);
  const gauge = box.share === undefined ? null : element("span");
  const line = element("li", {}, mark, name, ...(pace ? [pace] : []), detail);
  if (gauge) line.append(element("span", { class: "bar", "aria-hidden": "true" }, gauge));
  return { line, mark, name, detail, pace, gauge };
}
