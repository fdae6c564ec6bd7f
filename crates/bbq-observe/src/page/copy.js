// A button that copies a text.

import { element, setText } from "./element.js";

const COPIED_MS = 2000;

export function copyButton(text) {
  const copy = element("button", { type: "button", "aria-label": "Copy: " + text }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      setText(copy, "Copied");
    } catch {
      // Without TLS, a browser lets a page write to the clipboard on the machine itself alone.
      setText(copy, "Select it, and copy");
    }
    setTimeout(() => setText(copy, "Copy"), COPIED_MS);
  });
  return copy;
}
