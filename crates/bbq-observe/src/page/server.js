// The server behind this page: asks it, with the token in a header, and says how it went.

export class Away extends Error {}
export class Unauthorized extends Error {}
export class Refused extends Error {}

// A server that answers later is stuck.
const PATIENCE_MS = 5000;

export class Server {
  constructor(token) {
    this.token = token;
  }

  async json(path) {
    const limit = AbortSignal.timeout(PATIENCE_MS);
    const response = await this.fetch(path, limit);
    try {
      return await response.json();
    } catch (error) {
      throw new Away(error.message);
    }
  }

  hasToken() {
    return this.token.value() !== null;
  }

  // Asks for a change, and returns what was done.
  async order(path, patience) {
    const response = await this.fetch(path, AbortSignal.timeout(patience), "POST");
    return (await response.text()).trim();
  }

  async fetch(path, signal, method = "GET") {
    const token = this.token.value();
    const headers = token ? { Authorization: "Bearer " + token } : {};
    let response;
    try {
      response = await fetch(path, { method, headers, signal, cache: "no-store", credentials: "omit", redirect: "error" });
    } catch (error) {
      if (signal.aborted && signal.reason?.name === "AbortError") throw error;
      throw new Away(error.message);
    }
    if (response.status === 401) throw new Unauthorized();
    if (!response.ok) throw new Refused((await response.text()).trim() || "the server answers " + response.status);
    return response;
  }
}
