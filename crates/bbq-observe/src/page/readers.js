// The table of readers of files and journals. It is shown if there is one.

import { byId } from "./element.js";
import { bytes, count, duration, rate } from "./number.js";
import { dropped } from "./sinks.js";
import { Table } from "./table.js";

export class Readers {
  constructor() {
    this.table = new Table(byId("reader-table"), "Files that are read", [
      { label: "Reader", isText: true, cell: ({ reader, isBad }) => ({ text: reader.name, title: reader.spec, level: isBad ? "problem" : undefined }) },
      { label: "Files", field: "files", meaning: "that match, and old ones until they are read", cell: ({ reader }) => number(reader.files) },
      { label: "Rate", meaning: "messages read per second", cell: ({ pace }) => ({ text: rate(pace), value: pace }) },
      { label: "Received", field: "received", meaning: "messages, dropped and filtered ones included", cell: ({ reader }) => number(reader.received) },
      { label: "Dropped", field: "dropped", cell: ({ reader }) => dropped(reader.dropped) },
      { label: "Filtered", field: "filtered", meaning: "messages left out by where or sample", cell: ({ reader }) => number(reader.filtered ?? 0) },
      { label: "Behind", field: "behind", meaning: "bytes of the files that are not in the spool yet", cell: ({ reader }) => ({ text: bytes(reader.behind_bytes), value: reader.behind_bytes }) },
      { label: "For", meaning: "how long the oldest of these bytes have waited", cell: ({ reader }) => ({ text: duration(reader.behind_seconds * 1000), value: reader.behind_seconds }) },
      { label: "Rotations", cell: ({ reader }) => number(reader.rotations) },
      { label: "Last entry", meaning: "of a journal: how long ago the last entry that was read was written", cell: ({ reader }) => lastEntry(reader) },
      { label: "Problem", isText: true, cell: ({ reader }) => ({ text: reader.problem ?? "", level: reader.problem ? "problem" : undefined }) },
    ]);
  }

  update(status, rates) {
    const readers = status.readers ?? [];
    byId("readers").hidden = readers.length === 0;
    const rows = readers.map((reader, index) => ({
      reader,
      isBad: cannotRead(reader),
      pace: rates.of((status) => status.readers?.[index]?.received),
    }));
    this.table.update(rows, (row, index) => "readers." + index);
  }
}

function lastEntry(reader) {
  if ((reader.last_entry_second ?? null) === null) return { text: "" };
  const milliseconds = Math.max(0, Date.now() - reader.last_entry_second * 1000);
  return { text: duration(milliseconds), value: milliseconds };
}

export function cannotRead(reader) {
  return reader.problem !== null || reader.resting > 0;
}

function number(value) {
  return { text: count(value), value };
}
