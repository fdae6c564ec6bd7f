// The configuration in force. The server leaves every secret out.

import { byId } from "./element.js";
import { Refused } from "./server.js";
import { Table } from "./table.js";

// A reload may change it at any time.
const INTERVAL_MS = 4000;

export class Configuration {
  constructor() {
    this.table = new Table(byId("configuration-table"), "From the file, the options and the defaults. `bbq config explain` explains every key.", [
      { label: "Key", isText: true, cell: (row) => ({ text: row.key, title: row.meaning }) },
      { label: "Value", isText: true, cell: (row) => ({ text: row.value }) },
      { label: "From", isText: true, cell: (row) => ({ text: row.from ?? "default" }) },
    ]);
    this.pid = null;
    this.asked = 0;
  }

  async update(server, status) {
    const now = performance.now();
    if (this.pid === status.pid && now - this.asked < INTERVAL_MS) return;
    let keys;
    try {
      keys = (await server.json("configuration")).keys;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      keys = [{ key: "not shown", value: error.message, from: "" }];
    }
    this.table.update(keys, (row, index) => "configuration." + index + row.key);
    [this.pid, this.asked] = [status.pid, now];
  }
}
