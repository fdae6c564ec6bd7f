// The table of workers and their lanes.

import { byId } from "./element.js";
import { count, duration, rate } from "./number.js";
import { Table } from "./table.js";

export class Workers {
  constructor() {
    this.table = new Table(byId("worker-table"), "A worker receives, and writes a lane of the spool", [
      { label: "Worker", isText: true, cell: ({ worker }) => ({ text: String(worker.index), level: worker.stalled ? "problem" : undefined }) },
      { label: "Rate", meaning: "messages that its lane made durable", cell: ({ pace }) => ({ text: rate(pace), value: pace }) },
      { label: "Durable", field: "records", cell: ({ lane }) => ({ text: count(lane?.records), value: lane?.records }) },
      { label: "Connections", field: "connections", cell: ({ worker }) => ({ text: count(worker.connections), value: worker.connections }) },
      { label: "Sessions", cell: ({ worker }) => ({ text: count(worker.sessions), value: worker.sessions }) },
      { label: "Active", meaning: "sessions that sent something recently", cell: ({ worker }) => ({ text: count(worker.sessions_active), value: worker.sessions_active }) },
      { label: "Heartbeat", meaning: "time since it last returned to its event loop", cell: ({ worker }) => ({
        text: duration(worker.heartbeat_ms) + " ago", value: worker.heartbeat_ms, level: worker.stalled ? "problem" : undefined }) },
      { label: "Lane", isText: true, cell: ({ lane }) => lane ? condition(lane) : { text: "\u2013" } },
    ]);
  }

  update(status, rates) {
    const rows = status.workers.map((worker, index) => ({
      worker,
      lane: status.spool.lanes[index],
      pace: rates.of((status) => status.spool.lanes[index]?.records),
    }));
    this.table.update(rows, (row, index) => "workers." + index);
  }
}

export function condition(lane) {
  return lane.condition === "writing" ? { text: "writing" } : { text: lane.condition, level: "problem" };
}
