// The ledger: received = delivered + queued + dropped, and whether it balances.

import { byId, element, setAttribute, setText } from "./element.js";
import { bytes, count, data, duration, exact, setData } from "./number.js";
import { sum } from "./rates.js";

const TERMS = [["received", ""], ["delivered", "="], ["queued", "+"], ["dropped", "+"]];

// Name, field of the status, how it is read and shown.
const FACTS = [
  ["connections", null, ({ workers, connections_max }) => {
    const open = sum(workers.map((worker) => worker.connections));
    return [open, count(open) + " of " + count(connections_max)];
  }],
  ["spool on disk", "spool.bytes", ({ spool }, left) => [spool.bytes, bytes(spool.bytes) + " of " + bytes(spool.bytes_max) + left]],
  ["segments", "spool.segments", ({ spool }) => [spool.segments, count(spool.segments)]],
  ["damaged pieces set aside", "spool.quarantined", ({ spool }) => [spool.quarantined, count(spool.quarantined)]],
];

export class Ledger {
  constructor() {
    this.spool = new SpoolPace();
    this.terms = TERMS.map(([name, sign]) => {
      const value = data("ledger." + name);
      const mark = element("span", { class: "sign", "aria-hidden": "true" }, sign);
      byId("equation").append(element("div", {}, element("dt", {}, name), element("dd", {}, mark, value)));
      return value;
    });
    this.reasons = new Map();
    this.facts = FACTS.map(([name, field]) => {
      const value = data(field);
      byId("facts").append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
      return value;
    });
  }

  update(status, rates) {
    const { received, delivered, delivered_by_any, queued, dropped } = status.ledger;
    const lost = sum(dropped);
    [received, delivered, queued, lost].forEach((value, place) => setData(this.terms[place], value, count(value)));
    const off = received - delivered - queued - lost;
    const isMoving = rates.changed((status) => status.ledger.received + status.ledger.delivered);
    const balance = byId("balance");
    const ahead = delivered_by_any > delivered ? "; by any sink: " + count(delivered_by_any) : "";
    const sinks = status.sinks.length > 1 ? " (delivered by all sinks" + ahead + ")" : "";
    if (off === 0) {
      setText(balance, "\u2713 balances" + sinks);
      setAttribute(balance, "data-level", "well");
    } else if (isMoving) {
      setText(balance, "messages flow: the counters were read " + exact(Math.abs(off)) + " messages apart");
      setAttribute(balance, "data-level", "moving");
    } else {
      setText(balance, "\u25b2 does not balance: off by " + exact(off));
      setAttribute(balance, "data-level", "problem");
    }
    this.showReasons(dropped);
    const left = this.spool.left(status.spool);
    FACTS.forEach(([, , read], place) => setData(this.facts[place], ...read(status, left)));
  }

  showReasons(dropped) {
    for (const [reason, records] of Object.entries(dropped).filter(([, records]) => records > 0)) {
      let value = this.reasons.get(reason);
      if (!value) {
        value = data("ledger.dropped." + reason);
        byId("reasons").append(element("div", {}, element("dt", {}, "dropped: " + reason), element("dd", {}, value)));
        this.reasons.set(reason, value);
      }
      setData(value, records, count(records));
    }
  }
}

// The spool grows by whole segments: a shorter look would show none of them, or one.
const PACE_MS = 60000;
const PACE_MIN_MS = 10000;

// How long the spool has room at the pace of the last minute.
class SpoolPace {
  constructor() {
    this.seen = [];
  }

  left({ bytes, bytes_max }) {
    const now = performance.now();
    this.seen.push({ now, bytes });
    while (now - this.seen[0].now > PACE_MS) this.seen.shift();
    const [first, time] = [this.seen[0], now - this.seen[0].now];
    if (bytes >= bytes_max) return ", full";
    if (time < PACE_MIN_MS || bytes <= first.bytes) return "";
    return ", full in " + duration((bytes_max - bytes) * time / (bytes - first.bytes)) + " at this pace";
  }
}
