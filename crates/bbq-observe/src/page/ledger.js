// The ledger in one line: received = delivered + queued + dropped + filtered, and whether it balances.

import { byId, element, setAttribute, setText } from "./element.js";
import { count, data, exact, setData } from "./number.js";
import { sum } from "./rates.js";

const TERMS = [["received", ""], ["delivered", "="], ["queued", "+"], ["dropped", "+"], ["filtered", "+"]];

export class Ledger {
  constructor() {
    this.terms = TERMS.map(([name, sign]) => {
      const [label, value] = [element("dt", {}, name), data("ledger." + name)];
      const mark = element("span", { class: "sign", "aria-hidden": "true" }, sign);
      const line = element("div", {}, label, element("dd", {}, mark, value));
      byId("equation").append(line);
      return { line, label, value };
    });
    // The sink that is furthest ahead.
    this.any = data("ledger.delivered_by_any");
    this.also = element("dd", { class: "also", hidden: true }, "by any sink ", this.any);
    this.terms[1].line.append(this.also);
    this.reasons = new Map();
  }

  update(status, rates) {
    const { received, delivered, delivered_by_any, queued, dropped, filtered = 0 } = status.ledger;
    const lost = sum(dropped);
    [received, delivered, queued, lost, filtered].forEach((value, place) => setData(this.terms[place].value, value, count(value)));
    setData(this.any, delivered_by_any, count(delivered_by_any));
    this.also.hidden = status.sinks.length < 2;
    setText(this.terms[1].label, status.sinks.length > 1 ? "delivered by all sinks" : "delivered");
    // Most servers filter nothing.
    this.terms[4].line.hidden = filtered === 0;
    const off = received - delivered - queued - lost - filtered;
    const isMoving = rates.changed((status) => status.ledger.received + status.ledger.delivered);
    const balance = byId("balance");
    if (off === 0) {
      setText(balance, "\u2713 balances");
      setAttribute(balance, "data-level", "well");
    } else if (isMoving) {
      setText(balance, "messages flow: the counters were read " + exact(Math.abs(off)) + " messages apart");
      setAttribute(balance, "data-level", "moving");
    } else {
      setText(balance, "\u25b2 does not balance: off by " + exact(off));
      setAttribute(balance, "data-level", "problem");
    }
    this.showReasons(dropped);
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
