// What is wrong, and what to do about it, as the server says.

import { byId, element, setText } from "./element.js";
import { sum } from "./rates.js";

const WORDS = { problem: "Problem", notice: "Notice", warning: "Warning" };
const MARKS = { problem: "\u25b2", notice: "\u25c6", warning: "\u25b3" };

export function isFailing(sink) {
  return Boolean(sink.problem);
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
      setText(item.what, finding.text);
      setText(item.remedy, sentence(finding.remedy));
      this.list.append(item.line);
    }
    for (const [key, item] of this.shown) {
      if (!seen.has(key)) {
        item.line.remove();
        this.shown.delete(key);
        if (this.shown.size === 0) setText(byId("announcement"), "No problem is left.");
      }
    }
  }
}

// A remedy is written to stand behind a colon.
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function newItem(level) {
  const [what, remedy] = [element("span", { class: "what" }), element("span", { class: "remedy" })];
  const mark = element("span", { class: "mark", "aria-hidden": "true" }, MARKS[level]);
  const word = element("span", { class: "word" }, WORDS[level]);
  return { line: element("li", { "data-level": level }, mark, word, what, remedy), what, remedy };
}

// Whether a finding about a listener is a problem. Findings stay for a while after what they tell of.
export function hasProblem(status, listener) {
  return status.findings.some((finding) => finding.level === "problem" && finding.subject === "listener " + listener.spec);
}

export function dropsOf(listener) {
  return sum(listener.ledger.dropped);
}
