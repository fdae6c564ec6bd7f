// A table that is updated in place. A column is { label, field, cell }: `cell` makes { text, value, level, bar, title, label } of a row.
// With `press`, which gets the row, the text is a button.

import { element, setAttribute, setText } from "./element.js";
import { setData } from "./number.js";

const MARKS = { problem: "\u25b2\u00a0", notice: "\u25c6\u00a0", well: "" };

export class Table {
  constructor(table, caption, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.body = element("tbody", { role: "rowgroup" });
    const heads = columns.map((column) =>
      element("th", { scope: "col", role: "columnheader", class: column.isText ? "text" : "number", title: column.meaning }, column.label));
    // A narrow window lays the elements out as lists, which takes their meaning from them in some browsers.
    setAttribute(table, "role", "table");
    table.append(element("caption", {}, caption), element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads)), this.body);
    const meanings = columns.filter((column) => column.meaning);
    if (meanings.length > 0) {
      // A phone has no pointer to rest on a head.
      const words = meanings.map((column) => element("div", {}, element("dt", {}, column.label), element("dd", {}, column.meaning)));
      table.parentElement.after(element("details", { class: "legend" }, element("summary", {}, "What the columns mean"), element("dl", {}, ...words)));
    }
    this.empty = element("tr", { role: "row" }, element("td", { colspan: columns.length, role: "cell", class: "text" }, "none"));
    this.body.append(this.empty);
  }

  // `key` is a row's own, and part of the names of its fields.
  update(rows, key) {
    const seen = new Set();
    rows.forEach((row, index) => {
      const name = key(row, index);
      seen.add(name);
      let shown = this.rows.get(name);
      if (!shown) {
        shown = this.newRow(name);
        this.rows.set(name, shown);
        this.body.append(shown.line);
      }
      shown.row = row;
      this.columns.forEach((column, place) => show(shown.cells[place], column.cell(row, index)));
    });
    for (const [name, shown] of this.rows) {
      if (!seen.has(name)) {
        shown.line.remove();
        this.rows.delete(name);
      }
    }
    this.empty.hidden = rows.length > 0;
  }

  newRow(name) {
    const shown = {};
    const cells = this.columns.map((column, place) => {
      const field = column.field ? name + "." + column.field : null;
      const inner = column.press
        ? element("button", { type: "button", class: "small" })
        : element(column.isText ? "span" : "data", { "data-field": field });
      if (column.press) inner.addEventListener("click", () => column.press(shown.row));
      const bar = element("span", { class: "bar", hidden: true, "aria-hidden": "true" }, element("span"));
      // In a narrow window, a row is a list of names and values.
      const attributes = { role: place === 0 ? "rowheader" : "cell", class: column.isText ? "text" : "number", "data-label": place === 0 ? null : column.label };
      if (place === 0) attributes.scope = "row";
      const cell = element(place === 0 ? "th" : "td", attributes, inner, bar);
      return { cell, inner, bar };
    });
    return Object.assign(shown, { line: element("tr", { role: "row" }, ...cells.map(({ cell }) => cell)), cells });
  }
}

function show({ cell, inner, bar }, { text, value, level, bar: share, title, label }) {
  const shown = (MARKS[level] ?? "") + text;
  if (inner.tagName === "DATA") setData(inner, value, shown);
  else setText(inner, shown);
  if (title !== undefined) setAttribute(inner, "title", title);
  if (label !== undefined) setAttribute(inner, "aria-label", label);
  setAttribute(cell, "data-level", level);
  bar.hidden = share === undefined || share === null;
  if (!bar.hidden) bar.firstChild.style.inlineSize = Math.min(100, share * 100).toFixed(1) + "%";
}
