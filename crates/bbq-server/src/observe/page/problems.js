// What is wrong, and what to do about it. What the server says itself comes first; the page adds what it sees in the numbers.

import { byId, element, setText } from "./element.js";
import { bytes, count, duration, percent } from "./number.js";
import { sum } from "./rates.js";

// A worker comes back to its event loop after milliseconds. Over this, a person can see it.
const STALLED_MS = 1000;
const SPOOL_NEARLY_FULL = 0.9;

const WORDS = { problem: "Problem", notice: "Notice", warning: "Warning" };
const MARKS = { problem: "\u25b2", notice: "\u25c6", warning: "\u25b3" };

// By what the server's line says. A line that has its own remedy keeps it.
const REMEDIES = [
  [/^lane \d+ waits for space/, "Look for a sink that has a problem or far more queued than the others. If all work, raise spool.bytes_max and restart."],
  [/^lane \d+ failed/, "Look at the disk (dmesg), then restart: the new start reads what the disk really has."],
  [/^sink .* cannot deliver/, "Fix the destination; delivery resumes by itself. Messages stay in the spool, up to spool.bytes_max."],
  [/shares its address/, "Another process takes a share of the senders. Find it (ps -fp PID) and stop it."],
  [/old certificate|old tokens/, "Correct the file; it is read again by itself."],
];

export function isStalled(worker) {
  return worker.heartbeat_ms > STALLED_MS;
}

export function isFailing(sink) {
  return Boolean(sink.problem ?? sink.trouble);
}

// [{ level, what, remedy }], the worst first.
export function problemsOf(status) {
  const lines = status.problems.length ? status.problems : status.troubles ?? [];
  const found = lines.map((line) => told("problem", line));
  for (const worker of status.workers.filter(isStalled)) {
    found.push({
      level: "problem",
      key: "worker " + worker.index,
      what: "worker " + worker.index + " is stuck: it has not come back to its event loop for " + duration(worker.heartbeat_ms),
      remedy: "Its " + count(worker.connections) + " connections wait; others serve its queue. Look at the thread worker-" + worker.index
        + " (top -H -p " + status.pid + "): at 100 % it is overloaded, in state D it waits for the disk.",
    });
  }
  const { bytes: used, bytes_max: most } = status.spool;
  if (used >= most * SPOOL_NEARLY_FULL) {
    found.push({
      level: "warning",
      key: "spool",
      what: "the spool is " + percent(used / most) + " full: " + bytes(used) + " of " + bytes(most),
      remedy: "A sink is behind. When the spool is full, senders wait, or messages are dropped (on_full).",
    });
  }
  for (const listener of status.listeners.filter((listener) => listener.evenness?.uneven)) {
    found.push({
      level: "notice",
      what: "listener " + listener.name + ": one worker gets far more connections than the others, and not by chance",
      remedy: "Look for another process at the address, or few clients that use few ports; distribution=shared ignores both.",
    });
  }
  if (status.refused_change) {
    found.push({ level: "warning", what: "the last change was refused: " + status.refused_change, remedy: "The server goes on as before. Correct it and try again." });
  }
  found.push(...status.notices.map((line) => told("notice", line)));
  found.push(...status.warnings.map((line) => told("warning", line)));
  return found;
}

function told(level, line) {
  const split = /^(.*the last \d+ s ago): (.*)$/.exec(line) ?? /^(.*? is open to the network): (.*)$/.exec(line);
  if (split) return { level, what: split[1], remedy: split[2] };
  const known = REMEDIES.find(([pattern]) => pattern.test(line));
  return { level, what: line, remedy: known ? known[1] : "" };
}

export class Problems {
  constructor() {
    this.list = byId("problem-list");
    this.shown = new Map();
  }

  update(status) {
    const found = problemsOf(status);
    const seen = new Set();
    for (const problem of found) {
      // How many and how long ago change; it stays the same problem.
      const key = problem.key ?? problem.what.replace(/: \d+ /, ": # ").replace(/last \d+ s/, "last # s");
      if (seen.has(key)) continue;
      seen.add(key);
      let item = this.shown.get(key);
      if (!item) {
        item = newItem(problem.level);
        this.shown.set(key, item);
        if (problem.level === "problem") setText(byId("announcement"), "Problem: " + problem.what);
      }
      setText(item.what, problem.what);
      setText(item.remedy, problem.remedy);
      this.list.append(item.line);
    }
    for (const [key, item] of this.shown) {
      if (!seen.has(key)) {
        item.line.remove();
        this.shown.delete(key);
        if (this.shown.size === 0) setText(byId("announcement"), "No problem is left.");
      }
    }
    return found;
  }
}

function newItem(level) {
  const [what, remedy] = [element("span", { class: "what" }), element("span", { class: "remedy" })];
  const mark = element("span", { class: "mark", "aria-hidden": "true" }, MARKS[level]);
  const word = element("span", { class: "word" }, WORDS[level]);
  return { line: element("li", { "data-level": level }, mark, word, what, remedy), what, remedy };
}

export function dropsOf(listener) {
  return sum(listener.ledger.dropped);
}
