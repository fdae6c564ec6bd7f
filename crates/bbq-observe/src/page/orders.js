// What an operator tells a sink. With a token the page asks the server, as `bbq sink` does. Without tokens the server takes this from no
// page, so that no other site in the same browser can ask either: the page shows the commands then.

import { copyButton } from "./copy.js";
import { byId, element, setText } from "./element.js";
import { stateOf } from "./problems.js";
import { Away } from "./server.js";

// The server gives a sink half a minute.
const PATIENCE_MS = 40000;
// An order that is to be confirmed waits so long for the second click.
const CONFIRM_MS = 5000;
const DEFAULT_ADMINS = ["127.0.0.1:7790", "localhost:7790"];

const ORDERS = [
  { action: "pause", label: "Pause", does: "It delivers nothing until it is resumed, also after a restart. Its messages wait in the spool.", fits: (sink) => !sink.paused },
  { action: "resume", label: "Resume", does: "It delivers the messages that wait for it.", fits: (sink) => sink.paused },
  { action: "resend", label: "Resend dead letters", does: "The destination of an http: or otlp sink gets the messages again that it refused or that were skipped, as far as they are kept.", fits: () => true },
  { action: "skip", label: "Skip one message", does: "The message that it would deliver next is kept as a dead letter instead.", fits: () => true, isAskedTwice: true },
];

export class Orders {
  constructor(server) {
    this.server = server;
    this.dialog = byId("order-dialog");
    this.name = null;
    this.items = [];
    // While an order is under way there is no other. If the dialog is closed meanwhile, the order is still carried out.
    this.isBusy = false;
    this.dialog.addEventListener("close", () => { this.name = null; });
  }

  open(sink) {
    this.name = sink.name;
    setText(byId("order-title"), "Sink " + sink.name);
    setText(byId("order-result"), "");
    const newItem = this.server.hasToken() ? (order) => this.withButton(order) : (order) => withCommand(order, sink.name);
    this.items = ORDERS.map((order) => ({ order, line: newItem(order) }));
    byId("order-list").replaceChildren(...this.items.map(({ line }) => line));
    byId("order-where").hidden = this.server.hasToken();
    this.show(sink);
    this.dialog.showModal();
  }

  update(status) {
    if (this.name === null) return;
    const sink = status.sinks.find(({ name }) => name === this.name);
    if (sink) this.show(sink);
    else this.dialog.close();
  }

  show(sink) {
    setText(byId("order-state"), stateOf(sink));
    const focused = document.activeElement;
    for (const { order, line } of this.items) line.hidden = !order.fits(sink);
    // Pause becomes Resume: the keyboard stays where it was.
    if (focused?.closest("#order-list li[hidden]")) this.items.find(({ line }) => !line.hidden)?.line.querySelector("button").focus();
  }

  withButton({ action, label, does, isAskedTwice }) {
    const button = element("button", { type: "button" }, label);
    let [isSure, timer] = [!isAskedTwice, null];
    const forget = () => {
      clearTimeout(timer);
      isSure = !isAskedTwice;
      setText(button, label);
    };
    button.addEventListener("click", async (event) => {
      // The second of a double click confirms nothing.
      if (this.isBusy || event.detail > 1) return;
      if (!isSure) {
        isSure = true;
        setText(button, "Yes: " + label.toLowerCase());
        timer = setTimeout(forget, CONFIRM_MS);
        return;
      }
      forget();
      await this.give(action, this.name);
    });
    return element("li", {}, button, element("span", {}, does));
  }

  async give(action, name) {
    const tell = (text) => { if (this.name === name) setText(byId("order-result"), text); };
    tell("asking the sink");
    this.isBusy = true;
    try {
      tell(await this.server.order("sinks/" + action + "?" + new URLSearchParams({ name }), PATIENCE_MS));
    } catch (error) {
      if (error instanceof Away) tell("The server did not answer. It may have done this: look before you repeat it.");
      else tell(error.message || "The server does not accept the token.");
    } finally {
      this.isBusy = false;
    }
  }
}

function withCommand({ action, does }, name) {
  const admin = DEFAULT_ADMINS.includes(location.host) ? "" : "--admin " + quoted(location.host) + " ";
  const text = "bbq sink " + action + " " + admin + (name.startsWith("-") ? "-- " : "") + quoted(name);
  return element("li", {}, element("code", {}, text), copyButton(text), element("span", {}, does));
}

// As a shell reads it.
function quoted(word) {
  return /^[\w.:\/@%+,=-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}
