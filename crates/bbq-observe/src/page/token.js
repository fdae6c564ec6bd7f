// The token of the admin: asked for once, kept by this tab, never in a URL.

import { byId, setText } from "./element.js";

const KEY = "bbq-token";

export class Token {
  constructor() {
    this.dialog = byId("token-dialog");
    this.asking = null;
    // Escape does not end the question: without a token there is nothing to show.
    this.dialog.addEventListener("cancel", (event) => event.preventDefault());
  }

  value() {
    return sessionStorage.getItem(KEY);
  }

  // Resolves when there is another token to try.
  ask() {
    if (this.asking) return this.asking;
    setText(byId("token-problem"), this.value() ? "The server does not accept this token." : "");
    this.asking = new Promise((resolve) => {
      const form = byId("token-form");
      form.addEventListener("submit", () => {
        sessionStorage.setItem(KEY, form.elements.token.value.trim());
        form.reset();
        this.asking = null;
        resolve();
      }, { once: true });
      if (!this.dialog.open) this.dialog.showModal();
    });
    return this.asking;
  }
}
