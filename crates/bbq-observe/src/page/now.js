// What comes and goes at this moment, in one row: messages and bytes per second, how long clients wait for the disk, and how long the
// spool has room.

import { byId, element, setAttribute, setText } from "./element.js";
import { bytes, count, data, duration, percent, rate, setData } from "./number.js";
import { dropsOf } from "./problems.js";
import { sum } from "./rates.js";

// Long enough for 99 in 100 to mean something with few clients.
const LATENCY_WINDOW_MS = 10000;
// A spool that is full before somebody looks again.
const SOON_SECONDS = 86400;

export class Now {
  constructor() {
    this.latency = new Latency();
    const tile = (name, field, title) => {
      const [value, note] = [data(field), element("dd", { class: "note" })];
      byId("tiles").append(element("div", { title }, element("dt", {}, name), element("dd", {}, value), note));
      return { value, note };
    };
    this.received = tile("Messages in", null, "received by all listeners; bytes with headers and padding");
    this.delivered = tile("Messages out", null);
    const meaning = "from the first message of a group that a client waits for until the group is on disk, the last 10 s; upper ends of buckets";
    this.waited = tile("Wait for the disk", null, meaning);
    this.spool = tile("Spool on disk", "spool.bytes", "disk space that the spool takes, including space that is allocated ahead; the time is at the pace of the last minute");
    this.connections = tile("Connections", null);
  }

  update(status, rates) {
    const { spool, sinks, workers, connections_max } = status;
    const show = ({ value, note }, number, text, beside) => {
      setData(value, number, text);
      setText(note, beside);
    };
    const received = rates.of((status) => status.ledger.received);
    const written = rates.of(({ spool }) => sum(spool.lanes.map((lane) => lane.written_bytes)));
    const isLosing = rates.of(({ listeners }) => sum(listeners.map(dropsOf))) > 0;
    show(this.received, received, rate(received), bytes(written) + "/s to disk" + (isLosing ? "; dropped ones included" : ""));

    const [all, any] = [(status) => status.ledger.delivered, (status) => status.ledger.delivered_by_any].map((read) => rates.of(read));
    const beside = sinks.length > 1 ? "by all sinks; by any " + rate(any) : sinks.length === 1 ? "by " + sinks[0].name : "no sink";
    show(this.delivered, all, rate(all), beside);

    const took = this.latency.percentiles(spool.lanes, status.pid);
    const pair = took.map(({ end, isOver }) => (isOver ? "> " : "") + duration(end)).join(" / ");
    const isIdle = took.length === 0 && this.latency.isLong();
    const trouble = troubleOf(spool.lanes);
    const about = isIdle ? "no acknowledgement in the last 10 s" : "p50 / p99 of groups with a waiting client";
    show(this.waited, took[1]?.end, pair || "\u2013", trouble ?? about);
    setAttribute(this.waited.note, "data-level", trouble ? "notice" : null);

    const share = percent(spool.bytes / spool.bytes_max) + " of " + bytes(spool.bytes_max);
    const left = timeLeft(spool);
    show(this.spool, spool.bytes, bytes(spool.bytes), share + (left ? ", " + left : ""));
    const isSoon = left === "full" || (left && spool.full_in_seconds < SOON_SECONDS);
    setAttribute(this.spool.note, "data-level", isSoon ? "notice" : null);

    const open = sum(workers.map((worker) => worker.connections));
    show(this.connections, open, count(open), "of " + count(connections_max));
  }
}

// How long the spool has room; nothing if the server does not say so.
export function timeLeft({ bytes, bytes_max, full_in_seconds }) {
  if (bytes >= bytes_max) return "full";
  if (!Number.isFinite(full_in_seconds)) return "";
  return "full in " + (full_in_seconds < 60 ? "less than a minute" : duration(full_in_seconds * 1000)) + " at this pace";
}

// Why messages do not come to the disk.
function troubleOf(lanes) {
  if (lanes.some((lane) => lane.condition === "failed")) return "a lane has failed";
  return lanes.some((lane) => lane.condition !== "writing") ? "a lane waits for space" : null;
}

// How long groups with a waiting client took to the disk, of the last seconds: the difference of two histograms.
class Latency {
  constructor() {
    this.kept = [];
    // Nobody asked while the page was hidden.
    document.addEventListener("visibilitychange", () => { this.kept = []; });
  }

  // Whether the last reading is a whole window after the first.
  isLong() {
    return this.kept.at(-1).now - this.kept[0].now >= LATENCY_WINDOW_MS;
  }

  // Of 50 and of 99 in 100: a bucket's end in milliseconds, and whether it took longer than that, the last one. Empty without samples.
  percentiles(lanes, pid) {
    const now = performance.now();
    const last = this.kept.at(-1);
    const buckets = sumOf(lanes.map((lane) => lane.durable_seconds?.buckets ?? []));
    // Another process, or a reload, begins anew.
    if (last && (last.pid !== pid || (buckets.at(-1)?.count ?? 0) < (last.buckets.at(-1)?.count ?? 0))) this.kept = [];
    this.kept.push({ now, pid, buckets });
    while (this.kept.length > 2 && now - this.kept[1].now >= LATENCY_WINDOW_MS) this.kept.shift();
    const before = this.kept[0].buckets;
    const more = buckets.map(({ le, count }, place) => ({ le, count: count - (before[place]?.count ?? 0) }));
    const total = more.at(-1)?.count ?? 0;
    if (total === 0) return [];
    return [0.5, 0.99].map((part) => {
      const { le } = more.find(({ le, count }) => le === null || count >= total * part);
      return { end: (le ?? more.at(-2).le) * 1000, isOver: le === null };
    });
  }
}

function sumOf(lanes) {
  return (lanes[0] ?? []).map(({ le }, place) => ({ le, count: sum(lanes.map((buckets) => buckets[place]?.count ?? 0)) }));
}
