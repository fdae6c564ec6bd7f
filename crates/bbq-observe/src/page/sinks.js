// The table of sinks.

import { byId } from "./element.js";
import { count, duration, rate } from "./number.js";
import { isFailing } from "./problems.js";
import { sum } from "./rates.js";
import { Table } from "./table.js";

export class Sinks {
  constructor(orders) {
    this.orders = orders;
    this.table = new Table(byId("sink-table"), "Where messages go", [
      { label: "Sink", isText: true, cell: ({ sink }) => ({ text: sink.name, title: sink.spec, level: isFailing(sink) ? "problem" : undefined }) },
      { label: "State", isText: true, cell: ({ sink, pace }) => sink.paused
        ? { text: "paused", level: "notice" }
        : isFailing(sink)
        ? { text: "cannot deliver: " + sink.problem, level: "problem" }
        : { text: sink.queued === 0 ? "caught up" : pace === 0 ? "waiting" : "delivering" } },
      { label: "Rate", meaning: "messages delivered per second", cell: ({ pace }) => ({ text: rate(pace), value: pace }) },
      { label: "Delivered", field: "delivered", cell: ({ sink }) => ({ text: count(sink.delivered), value: sink.delivered }) },
      { label: "Queued", field: "queued", meaning: "messages in the spool that it has not delivered yet", cell: ({ sink }) => ({ text: count(sink.queued), value: sink.queued }) },
      { label: "Lag", meaning: "how long ago the last delivered message was received", cell: ({ sink }) => ({ text: sink.queued ? duration(Math.round(sink.lag_seconds * 1000)) : "0", value: sink.lag_seconds }) },
      { label: "Dropped", field: "dropped", meaning: "messages that it never delivers, by reason", cell: ({ sink }) => dropped(sink.dropped) },
      { label: "Filtered", field: "filtered", meaning: "messages that its rules leave out (where, sample)", cell: ({ sink }) => ({ text: count(sink.filtered), value: sink.filtered }) },
      { label: "Orders", meaning: "pause, resume, resend dead letters, skip a message", isText: true, cell: ({ sink }) => ({ text: "Orders", label: "Orders of sink " + sink.name }), press: ({ sink }) => orders.open(sink) },
    ]);
  }

  update(status, rates) {
    const rows = status.sinks.map((sink, index) => ({ sink, pace: rates.of((status) => status.sinks[index]?.delivered) }));
    this.table.update(rows, (row, index) => "sinks." + index);
    this.orders.update(status);
  }
}

export function dropped(reasons) {
  const value = sum(reasons);
  const named = Object.entries(reasons).filter(([, records]) => records > 0);
  const text = named.map(([reason, records]) => reason + " " + count(records)).join(", ");
  return { text: value ? count(value) + " (" + text + ")" : "0", value, level: value ? "problem" : undefined };
}
