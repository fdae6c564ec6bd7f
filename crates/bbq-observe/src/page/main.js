// The page: asks the server once a second while somebody looks, and shows what it says.

import { Configuration } from "./configuration.js";
import { byId, setAttribute, setText } from "./element.js";
import { First } from "./first.js";
import { Flow } from "./flow.js";
import { History } from "./history.js";
import { Ledger } from "./ledger.js";
import { Listeners } from "./listeners.js";
import { duration } from "./number.js";
import { Now } from "./now.js";
import { Orders } from "./orders.js";
import { Problems } from "./problems.js";
import { Rates } from "./rates.js";
import { Readers } from "./readers.js";
import { Refused, Server, Unauthorized } from "./server.js";
import { Sinks } from "./sinks.js";
import { Tail } from "./tail.js";
import { Token } from "./token.js";
import { Workers } from "./workers.js";

const INTERVAL_MS = 1000;
// A server that is away is asked less often, up to this.
const AWAY_INTERVAL_MS = 4000;

class Page {
  constructor() {
    this.token = new Token();
    this.server = new Server(this.token);
    this.rates = new Rates();
    this.problems = new Problems();
    const flow = new Flow();
    this.parts = [new First(), new Now(), flow, new Ledger(), new Sinks(new Orders(this.server)), new Listeners(), new Readers(), new Workers()];
    this.history = new History();
    flow.onChoice = (subject) => this.history.choose(subject);
    this.configuration = new Configuration();
    this.tail = new Tail(this.server);
    this.where = location.host;
    this.answered = null;
    this.failures = 0;
    this.wake = () => {};
  }

  async run() {
    document.addEventListener("visibilitychange", () => this.wake());
    for (;;) {
      if (document.hidden) {
        await new Promise((resolve) => { this.wake = resolve; });
        continue;
      }
      const begun = performance.now();
      await this.step();
      const interval = Math.min(AWAY_INTERVAL_MS, INTERVAL_MS * Math.max(1, this.failures));
      await this.pause(interval - (performance.now() - begun));
    }
  }

  async step() {
    try {
      const status = await this.server.json("status");
      this.answered = performance.now();
      this.failures = 0;
      this.show(status);
      await this.history.update(this.server, status);
      await this.configuration.update(this.server, status);
      setAttribute(document.documentElement, "data-shown", this.answered.toFixed(0));
    } catch (error) {
      if (error instanceof Unauthorized) {
        this.state("wait", "waiting for a token");
        await this.token.ask();
      } else {
        this.failures += 1;
        this.away(error);
      }
    }
  }

  pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(50, milliseconds));
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  show(status) {
    this.rates.add(status);
    this.problems.update(status);
    for (const part of this.parts) part.update(status, this.rates);
    this.tail.update(status);
    const of = (level) => status.findings.filter((finding) => finding.level === level).length;
    const [problems, warnings] = [of("problem"), of("warning")];
    if (status.host) this.where = status.host + ":" + status.data;
    setText(byId("who"), this.where + " \u00b7 " + status.version + " \u00b7 pid " + status.pid + " \u00b7 up " + duration(status.uptime_seconds * 1000));
    const isStopping = status.findings.some((finding) => finding.name === "stopping");
    if (!status.ready) this.state(isStopping ? "wait" : "problem", isStopping ? "stopping" : "\u25b2 not ready");
    else if (problems > 0) this.state("problem", "\u25b2 " + several(problems, "problem") + (warnings > 0 ? ", " + several(warnings, "warning") : ""));
    else this.state("well", "\u2713 works as configured");
    document.title = (problems > 0 ? "\u25b2 " + problems + " " : "") + "bbq " + this.where;
  }

  state(level, text) {
    setAttribute(byId("state"), "data-level", level);
    setText(byId("state"), text);
    setAttribute(document.documentElement, "data-away", level === "away");
  }

  away(error) {
    if (error instanceof Refused) return this.state("away", "\u2715 " + error.message);
    const since = this.answered === null ? "" : " for " + duration(performance.now() - this.answered);
    document.title = "\u2715 bbq " + this.where;
    return this.state("away", "\u2715 no answer" + since.replace(/\.\d/, "") + "; trying again");
  }
}

function several(count, word) {
  return count + " " + word + (count === 1 ? "" : "s");
}

new Page().run();
