// How to send the first message, until there is one.

import { copyButton } from "./copy.js";
import { byId, element } from "./element.js";

export class First {
  constructor() {
    this.shown = null;
  }

  update(status) {
    const commands = status.ledger.received > 0 ? [] : onePerProtocol(status.listeners.map(command).filter(({ text }) => text !== null));
    const shown = JSON.stringify(commands);
    if (this.shown === shown) return;
    this.shown = shown;
    byId("first").hidden = commands.length === 0;
    byId("first-commands").replaceChildren(...commands.map(line));
  }
}

function onePerProtocol(commands) {
  return commands.filter(({ protocol }, place) => commands.findIndex((other) => other.protocol === protocol) === place);
}

function line({ name, text, isLocal }) {
  const where = element("span", { class: "name" }, "to " + name + (isLocal ? ", on the server's machine" : ""));
  return element("li", {}, where, element("code", {}, text), copyButton(text));
}

// What a shell sends to a listener: null if it takes more than a line, such as TLS or a token.
function command({ name, spec, address }) {
  const [, transport, host, port] = /^(tcp|udp):\/\/(.*):(\d+)$/.exec(address) ?? [];
  const protocol = spec.split("+")[0];
  const isShort = transport && !/[?&](tls_cert|tokens?)[=_]/.test(spec);
  // A listener at every address is at this one, too. At which one others reach it, the server does not know.
  const at = host === "0.0.0.0" || host === "[::]" ? "127.0.0.1" : host;
  const isLocal = /^127\.|^\[::1\]$/.test(at);
  return { name, protocol, isLocal, text: isShort ? textFor(protocol, transport, at, port) : null };
}

function textFor(protocol, transport, at, port) {
  const named = at.replace(/^\[|\]$/g, "");
  switch (protocol) {
    case "syslog": return "logger --server " + named + " --port " + port + " --" + transport + " hello";
    case "http": return "curl --data hello http://" + at + ":" + port + "/";
    case "bbq": return "echo hello | bbq send --to bbq://" + at + ":" + port;
    case "lines": return transport === "tcp" ? "bash -c 'echo hello > /dev/tcp/" + named + "/" + port + "'" : null;
    default: return null;
  }
}
