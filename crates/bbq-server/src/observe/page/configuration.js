// The configuration in force. The server leaves every secret out.

import { byId } from "./element.js";
import { Refused } from "./server.js";
import { Table } from "./table.js";

export class Configuration {
  constructor() {
    this.table = new Table(byId("configuration-table"), "As the file, the options and the defaults make it. `bbq config default` explains every key.", [
      { label: "Key", isText: true, cell: (row) => ({ text: row.key, title: row.meaning }) },
      { label: "Value", isText: true, cell: (row) => ({ text: row.value }) },
      { label: "From", isText: true, cell: (row) => ({ text: row.is_default ? "default" : "set" }) },
    ]);
    this.of = null;
  }

  // Asks when the server has started again, or after a reload.
  async update(server, status) {
    const mark = JSON.stringify([status.pid, status.listeners.map((listener) => listener.spec), status.sinks.map((sink) => sink.spec)]);
    if (this.of === mark) return;
    let configuration;
    try {
      configuration = await server.json("configuration");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      configuration = { listen: [], sink: [], keys: [{ key: "not shown", value: error.message, is_default: false }] };
    }
    const specs = (key) => configuration[key].map((value) => ({ key, value, is_default: false }));
    this.table.update([...specs("listen"), ...specs("sink"), ...configuration.keys], (row, index) => "configuration." + index + row.key);
    this.of = mark;
  }
}
