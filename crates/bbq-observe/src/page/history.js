// The last hour, as the server keeps it: of the whole server, or of a listener or a sink. This asks for what is new, and has it drawn.

import { byId, element } from "./element.js";
import { Plot } from "./plot.js";
import { Refused } from "./server.js";

const KEPT_MAX = 3600;

export class History {
  constructor() {
    this.plot = new Plot();
    this.select = byId("subject");
    this.offered = null;
    this.server = null;
    this.pid = null;
    this.begin();
    this.select.addEventListener("change", () => this.chosen());
  }

  // Shows one of those that can be chosen.
  choose(subject) {
    this.select.value = subject;
    this.chosen();
    byId("history").scrollIntoView({ block: "nearest" });
  }

  chosen() {
    this.begin();
    // Also if this fails, the page asks again within a second.
    this.load().catch(() => {});
  }

  async update(server, status) {
    this.server = server;
    this.offer(status);
    if (this.pid !== status.pid) {
      this.pid = status.pid;
      this.begin();
    }
    await this.load();
  }

  begin() {
    this.last = 0;
    this.columns = {};
  }

  async load() {
    const [subject, after] = [this.select.value, this.last];
    const of = this.select.selectedOptions[0].label;
    let answer;
    try {
      answer = await this.server.json("history?" + (subject ? subject + "&" : "") + "after=" + after);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.begin();
      this.plot.show(this.columns, 0, of, error.message);
      return;
    }
    // Another was chosen meanwhile, or another answer came first.
    if (subject !== this.select.value || after !== this.last) return;
    this.last = answer.last;
    for (const [name, values] of Object.entries(answer).filter(([, values]) => Array.isArray(values))) {
      this.columns[name] = [...(this.columns[name] ?? []), ...values].slice(-KEPT_MAX);
    }
    this.plot.show(this.columns, this.last, of);
  }

  // What can be chosen. Listeners of one name have one history.
  offer(status) {
    const names = { listener: new Set(status.listeners.map((listener) => listener.name)), sink: new Set(status.sinks.map((sink) => sink.name)) };
    const groups = Object.entries(names).filter(([, some]) => some.size > 0);
    const offered = JSON.stringify(groups.map(([kind, some]) => [kind, ...some]));
    if (this.offered === offered) return;
    this.offered = offered;
    const chosen = this.select.value;
    const option = (kind, name) => element("option", { value: new URLSearchParams({ [kind]: name }) }, kind + " " + name);
    this.select.replaceChildren(element("option", { value: "" }, "the whole server"), ...groups.map(([kind, some]) =>
      element("optgroup", { label: kind === "listener" ? "Listeners" : "Sinks" }, ...[...some].map((name) => option(kind, name)))));
    this.select.value = [...this.select.options].some(({ value }) => value === chosen) ? chosen : "";
    if (this.select.value !== chosen) this.begin();
  }
}
