// What comes and goes at this moment, in one row: messages and bytes per second, the time to an acknowledgement, and how long the spool
// has room.

import { byId, element, setAttribute, setText } from "./element.js";
import { bytes, count, data, duration, percent, rate, setData } from "./number.js";
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
    this.acknowledged = tile("Acknowledged in", null, "from a client's message to its group on disk, the last 10 s; upper ends of buckets");
    this.spool = tile("Spool on disk", "spool.bytes", "at the pace of the last minute; see the ledger");
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
    show(this.received, received, rate(received), (written === null ? "\u2013" : bytes(written)) + "/s to disk");

    const [all, any] = [(status) => status.ledger.delivered, (status) => status.ledger.delivered_by_any].map((read) => rates.of(read));
    const beside = sinks.length > 1 ? "by all sinks; by any " + rate(any) : sinks.length === 1 ? "by " + sinks[0].name : "no sink";
    show(this.delivered, all, rate(all), beside);

    const [p50, p99] = this.latency.percentiles(spool.lanes, status.pid);
    const pair = p50 === null ? "\u2013" : duration(p50) + " / " + duration(p99);
    show(this.acknowledged, p99, pair, p50 === null ? "no client waits" : "p50 / p99");

    const share = percent(spool.bytes / spool.bytes_max) + " of " + bytes(spool.bytes_max);
    const left = timeLeft(spool);
    show(this.spool, spool.bytes, bytes(spool.bytes), share + (left ? ", " + left : ""));
    const isSoon = left === "full" || (left && spool.full_in_seconds < SOON_SECONDS);
    setAttribute(this.spool.note, "data-level", isSoon ? "notice" : null);

    const open = sum(workers.map((worker) => worker.connections));
    show(this.connections, open, count(open), "of " + count(connections_max));
  }
}

// How long the spool has room; nothing while its queue does not grow.
export function timeLeft({ bytes, bytes_max, full_in_seconds }) {
  if (bytes >= bytes_max) return "full";
  if (full_in_seconds === null || full_in_seconds === undefined) return "";
  return "full in " + duration(full_in_seconds * 1000) + " at this pace";
}

// The time to an acknowledgement, of the last seconds: the difference of two histograms.
class Latency {
  constructor() {
    this.kept = [];
  }

  // Milliseconds, of 50 and of 99 in 100; null without samples. Longer than the last bucket is that bucket's end.
  percentiles(lanes, pid) {
    const now = performance.now();
    const last = this.kept.at(-1);
    const buckets = sumOf(lanes.map((lane) => lane.durable_seconds.buckets));
    // Another process, or a reload, begins anew.
    if (last && (last.pid !== pid || (buckets.at(-1)?.count ?? 0) < (last.buckets.at(-1)?.count ?? 0))) this.kept = [];
    this.kept.push({ now, pid, buckets });
    while (this.kept.length > 2 && now - this.kept[1].now >= LATENCY_WINDOW_MS) this.kept.shift();
    const before = this.kept[0].buckets;
    const more = buckets.map(({ le, count }, place) => ({ le, count: count - (before[place]?.count ?? 0) }));
    const total = more.at(-1)?.count ?? 0;
    if (total === 0) return [null, null];
    const end = (part) => more.find(({ le, count }) => le === null || count >= total * part).le ?? more.at(-2).le;
    return [0.5, 0.99].map((part) => end(part) * 1000);
  }
}

function sumOf(lanes) {
  return (lanes[0] ?? []).map(({ le }, place) => ({ le, count: sum(lanes.map((buckets) => buckets[place]?.count ?? 0)) }));
}
