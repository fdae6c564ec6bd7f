// What is wrong, and what to do about it, as the server says.

import { byId, element, setText } from "./element.js";
import { duration } from "./number.js";
import { sum } from "./rates.js";

const WORDS = { problem: "Problem", notice: "Notice", warning: "Warning" };
const MARKS = { problem: "\u25b2", notice: "\u25c6", warning: "\u25b3" };

export function isFailing(sink) {
  return Boolean(sink.problem);
}

// In a sentence.
export function stateOf(sink) {
  if (sink.paused) return "It is paused.";
  return isFailing(sink) ? "It cannot deliver: " + sink.problem : "It delivers.";
}

export class Problems {
  constructor() {
    this.list = byId("problem-list");
    this.shown = new Map();
  }

  update({ findings }) {
    const seen = new Set();
    for (const finding of findings) {
      // Its text changes; it stays the same finding.
      const key = finding.name + " " + finding.subject;
      seen.add(key);
      let item = this.shown.get(key);
      if (!item) {
        item = newItem(finding.level);
        this.shown.set(key, item);
        if (finding.level === "problem") setText(byId("announcement"), "Problem: " + finding.text);
      }
      setText(item.since, finding.since_seconds ? "for " + duration(finding.since_seconds * 1000) : "");
      setText(item.what, finding.text);
      setText(item.effect, sentence(finding.effect));
      setText(item.remedy, sentence(finding.remedy));
      this.list.append(item.line);
    }
    for (const [key, item] of this.shown) {
      if (!seen.has(key)) {
        item.line.remove();
        this.shown.delete(key);
        if (this.shown.size === 0) setText(byId("announcement"), "No problems remain.");
      }
    }
  }
}

// An effect and a remedy are written to stand in the middle of a line.
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function newItem(level) {
  const [what, effect, remedy, since] = ["what", "effect", "remedy", "since"].map((name) => element("span", { class: name }));
  const mark = element("span", { class: "mark", "aria-hidden": "true" }, MARKS[level]);
  const word = element("span", { class: "word" }, WORDS[level], " ", since);
  const cause = element("span", { class: "cause" }, what, " ", effect);
  return { line: element("li", { "data-level": level }, mark, word, cause, remedy), what, effect, remedy, since };
}

// Whether a finding about a listener is a problem. Findings stay for a while after what they tell of.
export function hasProblem(status, listener) {
  return status.findings.some((finding) => finding.level === "problem" && finding.subject === "listener " + listener.name);
}

export function dropsOf(listener) {
  return sum(listener.ledger.dropped);
}
