// Asking the broker: by admin REST, with the token that was given, and nothing else.
//
// The token is kept for this tab alone and sent in a header, never in a cookie: no other page can
// make a browser send it.

const TOKEN = "magnetar.token";

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

// The broker did not answer: it is away, or on its way back.
export class Away extends Error {}

export class Api {
  constructor() {
    this.onUnauthorized = () => {};
    this.onAway = () => {};
    this.onAnswer = () => {};
  }

  get token() {
    return sessionStorage.getItem(TOKEN) ?? "";
  }

  set token(value) {
    if (value === "") sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, value);
  }

  get(path, query = {}, options = {}) {
    return this.#ask("GET", path, query, undefined, options).then((answer) => answer.json());
  }

  async bytes(path, query = {}) {
    const answer = await this.#ask("GET", path, query);
    return new Uint8Array(await answer.arrayBuffer());
  }

  // What a change answers, or null if it says nothing.
  async send(method, path, body, query = {}) {
    const answer = await this.#ask(method, path, query, body);
    return answer.status === 204 ? null : answer.json();
  }

  async #ask(method, path, query, body, { signal } = {}) {
    const kept = Object.entries(query).filter(([, value]) => value !== "" && value != null);
    const text = new URLSearchParams(kept).toString();
    const headers = {};
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    let answer;
    try {
      answer = await fetch(text ? `${path}?${text}` : path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store",
        credentials: "omit",
        mode: "same-origin",
        redirect: "error",
        signal,
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      this.onAway();
      throw new Away("the broker does not answer");
    }
    this.onAnswer();
    if (answer.ok) return answer;
    const reason = await reasonOf(answer);
    if (answer.status === 401) this.onUnauthorized(reason);
    throw new Refused(answer.status, reason);
  }
}

async function reasonOf(answer) {
  try {
    const { reason } = await answer.json();
    return String(reason);
  } catch {
    return `the broker answered ${answer.status}`;
  }
}
