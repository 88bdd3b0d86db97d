// The console: the frame around all pages, who is signed in, and which page is shown.

import { Api, Refused } from "./api.js";
import { age } from "./logic/format.js";
import { parseRoute, routeTo } from "./logic/route.js";
import { clearHistory } from "./logic/history.js";
import { visible } from "./logic/visible.js";
import { Poller } from "./poller.js";
import { h, replace, setText } from "./ui/dom.js";
import * as overview from "./page/overview.js";
import * as signIn from "./page/sign_in.js";
import * as subscription from "./page/subscription.js";
import * as topic from "./page/topic.js";
import * as topics from "./page/topics.js";

const PAGES = { overview, topics, subscriptions: topics, topic, subscription };
const NAV = [
  ["Overview", "overview"],
  ["Topics", "topics"],
  ["Subscriptions", "subscriptions"],
];

class App {
  constructor() {
    this.api = new Api();
    this.session = null;
    this.page = null;
    this.poller = null;
    this.startedMs = 0;
    this.#build();
    this.api.onAnswer = () => this.#connected(true);
    this.api.onAway = () => this.#connected(false);
    this.api.onUnauthorized = (reason) => this.signOut(reason);
    addEventListener("hashchange", () => this.show());
  }

  // ---- The frame -----------------------------------------------------------

  #build() {
    this.links = NAV.map(([text, page]) => h("a", { href: routeTo(page), "data-page": page }, text));
    this.state = h("span.state", { role: "status" });
    this.who = h("span.who");
    this.out = h("button.quiet", { type: "button", hidden: true, onclick: () => this.signOut("") }, "Sign out");
    this.theme = h("button.quiet.theme", { type: "button", onclick: () => this.#turnTheme() });
    this.#nameTheme();
    this.main = h("main", { id: "main", tabindex: "-1" });
    const skip = h("a.skip-link", { href: "#main" }, "To the content");
    skip.addEventListener("click", (event) => {
      event.preventDefault(); // the address says which page this is
      this.main.focus();
    });
    document.body.append(
      skip,
      h(
        "header.top",
        {},
        h("a.brand", { href: routeTo("overview"), "aria-label": "Magnetar, overview" }, h("span.mark", { "aria-hidden": "true" }), "Magnetar"),
        h("nav.main-nav", { "aria-label": "Pages" }, this.links),
        h("div.top-right", {}, this.state, this.who, this.theme, this.out),
      ),
      this.main,
    );
  }

  #connected(is) {
    const text = is ? "live" : "reconnecting…";
    this.state.classList.toggle("away", !is);
    setText(this.state, text);
    if (!is) this.wasAway = true;
    else if (this.wasAway) {
      this.wasAway = false;
      this.#greet().catch(() => {});
    }
  }

  #turnTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("magnetar.theme", root.dataset.theme);
    this.#nameTheme();
    this.page?.themed?.();
  }

  #nameTheme() {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    setText(this.theme, dark ? "Light" : "Dark");
    this.theme.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
  }

  // ---- Who it is -----------------------------------------------------------

  async begin() {
    try {
      await this.#greet();
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return; // it has been asked for a token
      if (error instanceof Refused) {
        replace(this.main, h("div.problem", {}, error.message));
        return;
      }
      setTimeout(() => this.begin(), 1000);
      replace(this.main, h("div.empty", {}, h("p", {}, "The broker does not answer yet.")));
      return;
    }
    this.show();
  }

  async #greet() {
    const session = await this.api.get("/admin/v2/console/session");
    if (this.session !== null && this.session.startedMs !== session.startedMs) clearHistory();
    this.session = session;
    this.clockSkew = Date.now() - session.nowMs;
    setText(this.who, session.role ?? session.cluster);
    this.who.title = session.role === null ? "Cluster" : `Role, on cluster ${session.cluster}`;
    this.out.hidden = !session.authentication;
  }

  // The broker's time of day.
  now() {
    return Date.now() - (this.clockSkew ?? 0);
  }

  uptime() {
    return age(this.now() - this.session.startedMs);
  }

  signOut(reason) {
    this.api.token = "";
    this.session = null;
    this.#close();
    setText(this.who, "");
    this.out.hidden = true;
    replace(this.main);
    document.title = "Sign in · Magnetar";
    signIn.open(this.main, this, reason);
  }

  // ---- Which page ----------------------------------------------------------

  #close() {
    this.poller?.close();
    this.page?.close?.();
    this.poller = this.page = null;
  }

  go(hash) {
    if (location.hash === hash) this.show();
    else location.hash = hash;
  }

  show() {
    if (this.session === null) return;
    const route = parseRoute(location.hash);
    for (const link of this.links) {
      if (link.dataset.page === route.page) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const same = this.page?.follow?.(route);
    if (same) {
      this.poller.now();
      return;
    }
    this.#close();
    const moved = this.shown !== undefined;
    this.shown = route;
    replace(this.main);
    const page = PAGES[route.page].open(this.main, route, this);
    document.title = visible(`${page.title ?? "Overview"} · Magnetar`);
    this.page = page;
    this.poller = new Poller(async () => {
      try {
        await page.refresh();
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status !== 401) page.refused?.(error);
      }
    }, page.every ?? 2000);
    this.poller.now();
    if (moved) {
      scrollTo(0, 0);
      this.main.focus({ preventScroll: true });
    }
  }

  // After a change: what is shown is asked for at once.
  refresh() {
    return this.poller?.now();
  }
}

new App().begin();
