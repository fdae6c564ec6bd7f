// The tables of listeners and of their sockets.

import { byId } from "./element.js";
import { bytes, count, duration, percent, rate } from "./number.js";
import { hasProblem } from "./problems.js";
import { dropped } from "./sinks.js";
import { Table } from "./table.js";

const isDatagram = (listener) => listener.address.startsWith("udp:") || listener.address.startsWith("unixgram:");

// Without its scheme: the name of the listener has the protocol.
export function addressOf(listener) {
  return listener.address.replace(/^\w+:(\/\/)?/, "");
}

export class Listeners {
  constructor() {
    this.listeners = new Table(byId("listener-table"), "Where messages come from", [
      { label: "Listener", isText: true, cell: ({ listener, isBad }) => ({ text: listener.name, title: listener.spec, level: isBad ? "problem" : undefined }) },
      { label: "At", isText: true, cell: ({ listener }) => ({ text: addressOf(listener) }) },
      { label: "Rate", meaning: "messages received per second", cell: ({ pace }) => ({ text: rate(pace), value: pace }) },
      { label: "Received", field: "received", meaning: "messages, dropped and filtered ones included", cell: ({ listener }) => number(listener.ledger.received) },
      { label: "Dropped", field: "dropped", cell: ({ listener }) => dropped(listener.ledger.dropped) },
      { label: "Filtered", field: "filtered", meaning: "messages left out by where or sample", cell: ({ listener }) => number(listener.ledger.filtered ?? 0) },
      { label: "Refused", meaning: "sessions and requests that were turned away", cell: ({ listener }) => number(listener.ledger.refused) },
      { label: "Distribution", meaning: "how connections and datagrams come to the workers", isText: true, cell: ({ listener }) => ({ text: listener.distribution, title: listener.fallback ?? listener.steering }) },
      { label: "Load", meaning: "whether the workers take even shares of the connections; known from 200 connections on", isText: true, cell: ({ listener }) => evenness(listener.evenness) },
      { label: "Other processes", meaning: "processes with a socket at the same address: messages to them never reach this server", isText: true, cell: ({ listener }) => foreign(listener.foreign) },
    ]);
    this.sockets = new Table(byId("socket-table"), "Sockets: what waits, who takes it, and for how long it waited", [
      { label: "Socket", isText: true, cell: ({ listener, socket }) => ({ text: listener.name + " #" + socket.index }) },
      { label: "Worker", cell: ({ socket }) => ({ text: socket.worker === null ? "all" : String(socket.worker), value: socket.worker }) },
      { label: "Accepted", field: "accepted", meaning: "connections or datagrams taken", cell: ({ socket }) => number(socket.accepted) },
      { label: "Share", meaning: "of what the listener has accepted", cell: ({ share }) => ({ text: percent(share), value: share, bar: share }) },
      { label: "Queue", field: "queue", meaning: "connections, or bytes of datagrams, that wait in the kernel", cell: ({ listener, socket }) => queue(listener, socket) },
      { label: "Delay p50", meaning: "half of the connections waited at most this long until a worker took them", cell: ({ socket }) => delay(socket.accept_delay_ms?.p50) },
      { label: "p99", meaning: "99 in 100 connections waited at most this long", cell: ({ socket }) => delay(socket.accept_delay_ms?.p99) },
      { label: "Longest", meaning: "the longest that a connection waited", cell: ({ socket }) => delay(socket.accept_delay_ms?.max) },
      { label: "Drops", field: "drops", meaning: "connections or datagrams that the kernel dropped", cell: ({ socket }) => ({ ...number(socket.drops), level: socket.drops ? "problem" : undefined }) },
      { label: "Rescued", meaning: "connections or datagrams that other workers took, as the socket's own worker was late", cell: ({ socket }) => number(socket.rescued) },
      { label: "Starved", meaning: "times that accepting paused because descriptors or memory ran out", cell: ({ socket }) => ({ ...number(socket.starved), level: socket.starved ? "notice" : undefined }) },
    ]);
  }

  update(status, rates) {
    const rows = status.listeners.map((listener, index) => ({
      listener,
      isBad: hasProblem(status, listener),
      pace: rates.of((status) => status.listeners[index]?.ledger.received),
    }));
    this.listeners.update(rows, (row, index) => "listeners." + index);
    const sockets = status.listeners.flatMap((listener, place) => {
      const total = listener.sockets.reduce((sum, socket) => sum + socket.accepted, 0);
      return listener.sockets.map((socket) => ({ listener, place, socket, share: total ? socket.accepted / total : null }));
    });
    this.sockets.update(sockets, ({ place, socket }) => "listeners." + place + ".sockets." + socket.index);
  }
}

function number(value) {
  return { text: count(value), value };
}

function delay(milliseconds) {
  return { text: duration(milliseconds), value: milliseconds };
}

function queue(listener, socket) {
  if (socket.queue === null) return { text: count(null), value: null };
  const show = isDatagram(listener) ? bytes : count;
  const share = socket.backlog ? socket.queue / socket.backlog : null;
  const limit = socket.backlog ? " of " + show(socket.backlog) : "";
  return { text: show(socket.queue) + limit, value: socket.queue, bar: share, level: share > 0.8 ? "problem" : undefined };
}

function evenness(window) {
  if (!window) return { text: "\u2013" };
  const title = "of " + count(window.connections) + " connections the workers took " + count(window.smallest) + " to " + count(window.largest);
  return window.uneven ? { text: "uneven", title, level: "notice" } : { text: "\u2713 even", title };
}

function foreign(members) {
  if (members.length === 0) return { text: "none" };
  const names = members.map((member) => member.pid ? "pid " + member.pid + " (" + (member.command ?? "?") + ")" : "inode " + member.inode);
  return { text: names.join(", "), level: "problem" };
}
