// The live tail: messages as the server sends them, with a filter that the server applies. Bodies are text nodes.

import { byId, element, setAttribute, setText } from "./element.js";
import { exact } from "./number.js";
import { Refused, Unauthorized } from "./server.js";

// Older lines go: a browser gets slow with more.
const LINES_MAX = 400;
// Of a message, what is shown.
const CHARACTERS_MAX = 2000;
const RATE = 100;

export class Tail {
  constructor(server) {
    this.server = server;
    this.form = byId("filter");
    this.list = byId("messages");
    this.listeners = "";
    this.following = null;
    this.wasRefused = false;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.following) this.stop("Not following.");
      else this.follow();
    });
    // Another filter begins anew, also after one that the server refused.
    this.form.addEventListener("change", () => {
      if (this.following || this.wasRefused) {
        this.stop("");
        this.follow();
      }
    });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && this.following) this.stop("Stopped while the page was hidden.");
    });
  }

  update(status) {
    const names = status.listeners.map((listener) => listener.name);
    if (this.listeners === names.join("\n")) return;
    this.listeners = names.join("\n");
    const select = this.form.elements.listener;
    const chosen = select.value;
    select.replaceChildren(element("option", { value: "" }, "all"), ...names.map((name) => element("option", { value: name }, name)));
    select.value = names.includes(chosen) ? chosen : "";
  }

  query() {
    const fields = this.form.elements;
    const query = new URLSearchParams({ rate: RATE, from: fields.from.value });
    for (const name of ["listener", "severity", "peer"]) {
      if (fields[name].value.trim()) query.set(name, fields[name].value.trim());
    }
    if (fields.text.value) query.set(fields.regex.checked ? "grep" : "text", fields.text.value);
    return query;
  }

  async follow() {
    const following = new AbortController();
    this.following = following;
    this.wasRefused = false;
    setText(byId("follow"), "Stop");
    this.list.replaceChildren();
    this.say("Following.", "well");
    try {
      const response = await this.server.fetch("tail?" + this.query(), following.signal);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        this.add(lines.filter((line) => line !== "").map((line) => JSON.parse(line)));
      }
      if (this.following === following) this.stop("The server ended it. Follow again.");
    } catch (error) {
      if (this.following !== following) return;
      this.wasRefused = error instanceof Refused;
      if (error instanceof Unauthorized) this.stop("The server asks for a token.");
      else this.stop("It ended: " + error.message);
    }
  }

  stop(why) {
    this.following?.abort();
    this.following = null;
    setText(byId("follow"), "Follow");
    this.say(why, "");
  }

  say(text, level) {
    setText(byId("tail-state"), text);
    setAttribute(byId("tail-state"), "data-level", level);
  }

  add(lines) {
    const shown = lines.map(lineOf).filter(Boolean);
    if (shown.length === 0) return;
    const atEnd = this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 4;
    this.list.append(...shown);
    while (this.list.children.length > LINES_MAX) this.list.firstChild.remove();
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}

function lineOf(line) {
  if (line.skipped !== undefined) {
    return element("li", { class: "skipped" }, "\u2026 " + exact(line.skipped) + " messages were not looked at, to leave the server alone");
  }
  if (line.time === undefined) return null;
  const time = element("time", { datetime: line.time }, line.time.slice(11, 23));
  const severity = element("span", { class: "severity", "data-severity": line.severity }, line.severity ?? "");
  const text = line.message ?? (line.body === undefined ? undefined : textOf(line.body)) ?? line.message_base64 ?? "";
  const cut = text.length > CHARACTERS_MAX ? text.slice(0, CHARACTERS_MAX) + " \u2026" : text;
  const peer = line.peer ?? (line.peer_pid === undefined ? "" : "pid:" + line.peer_pid);
  const sender = element("span", { class: "sender" }, readable(peer || "unknown sender"));
  const source = element("span", { class: "source" }, readable(line.listener ?? ""), " ", sender);
  const title = [source.textContent, "stream " + line.stream + " #" + line.sequence].join(" \u00b7 ");
  return element("li", { title }, time, severity, source, element("span", { class: "body" }, readable(programOf(line) + cut.replace(/\n$/, ""))));
}

// In a message of syslog the header has the program; an entry of the journal has no header.
function programOf(line) {
  if (line.appname === undefined || line.msg !== undefined) return "";
  return line.appname + (line.procid === undefined ? "" : "[" + line.procid + "]") + ": ";
}

// Without what hides characters or turns their order around (UAX #9), and without control characters but for tabs and line feeds.
function readable(text) {
  const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  return text.replace(unseen, (character) => "\\u{" + character.codePointAt(0).toString(16) + "}");
}

function textOf(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
