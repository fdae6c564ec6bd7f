// The table of workers and their lanes.

import { byId, element } from "./element.js";
import { count, data, duration, rate, setData } from "./number.js";
import { Table } from "./table.js";

// Of all lanes: name, field of the spool.
const FACTS = [["files of the spool", "segments"], ["damaged pieces set aside", "quarantined"]];

export class Workers {
  constructor() {
    this.table = new Table(byId("worker-table"), "A worker receives, and writes a lane of the spool", [
      { label: "Worker", isText: true, cell: ({ worker }) => ({ text: String(worker.index), level: worker.stalled ? "problem" : undefined }) },
      { label: "Rate", meaning: "messages per second that its lane has put on disk", cell: ({ pace }) => ({ text: rate(pace), value: pace }) },
      { label: "On disk", field: "records", meaning: "messages that its lane has ever put on disk", cell: ({ lane }) => ({ text: count(lane?.records), value: lane?.records }) },
      { label: "Connections", field: "connections", cell: ({ worker }) => ({ text: count(worker.connections), value: worker.connections }) },
      { label: "Sessions", meaning: "connections of bbq clients", cell: ({ worker }) => ({ text: count(worker.sessions), value: worker.sessions }) },
      { label: "Active", meaning: "sessions that sent something recently", cell: ({ worker }) => ({ text: count(worker.sessions_active), value: worker.sessions_active }) },
      { label: "Heartbeat", meaning: "time since the worker last returned to its event loop", cell: ({ worker }) => ({
        text: duration(worker.heartbeat_ms) + " ago", value: worker.heartbeat_ms, level: worker.stalled ? "problem" : undefined }) },
      { label: "Lane", meaning: "what the worker's part of the spool does: writing, waiting for space, or failed", isText: true, cell: ({ lane }) => lane ? condition(lane) : { text: "\u2013" } },
    ]);
    this.facts = FACTS.map(([name, field]) => {
      const value = data("spool." + field);
      byId("facts").append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
      return value;
    });
  }

  update(status, rates) {
    const rows = status.workers.map((worker, index) => ({
      worker,
      lane: status.spool.lanes[index],
      pace: rates.of((status) => status.spool.lanes[index]?.records),
    }));
    this.table.update(rows, (row, index) => "workers." + index);
    FACTS.forEach(([, field], place) => setData(this.facts[place], status.spool[field], count(status.spool[field])));
  }
}

export function condition(lane) {
  return lane.condition === "writing" ? { text: "writing" } : { text: lane.condition, level: "problem" };
}
