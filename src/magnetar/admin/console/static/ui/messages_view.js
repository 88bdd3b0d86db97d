// Messages of a topic or of a backlog: pages, filters, and what is done with those that are chosen.

import { bytes, count, plural, time } from "../logic/format.js";
import { idOf, isDeadLetter, parseId } from "../logic/message.js";
import { fromBase64, preview } from "../logic/payload.js";
import { subscriptionPath, topicPath } from "../logic/route.js";
import { redriveMessages, skipMessages } from "../page/actions.js";
import { h, replace, setText } from "./dom.js";
import { field, select, sentence } from "./dialog.js";
import { badge } from "./parts.js";
import { PayloadView, Schemas } from "./payload_view.js";

const PAGE = 25;

export class MessagesView {
  constructor(app, names, rights, query = {}) {
    this.app = app;
    this.names = names;
    this.rights = rights;
    this.backlog = names.length > 4;
    this.schemas = new Schemas(app, names);
    this.chosen = new Map();
    this.pages = [query.from ?? ""]; // where each page began
    this.next = null;
    this.stop = null;
    this.#build(query);
  }

  // ---- The form ------------------------------------------------------------

  #build(query) {
    const text = (value = "", hint = "") => h("input", { type: "text", value, placeholder: hint, spellcheck: "false" });
    this.inputs = {
      text: text(query.text),
      key: text(query.key),
      property: text(query.property, "name or name=value"),
      since: h("input", { type: "datetime-local", step: "1" }),
      until: h("input", { type: "datetime-local", step: "1" }),
      from: text(query.from, "ledger:entry"),
    };
    this.which = this.backlog ? select([["", "not acked"], ["all", "all that are stored"]], query.acked ? "all" : "") : null;
    const form = h(
      "form.filters",
      {
        "aria-label": "Which messages",
        onsubmit: (event) => {
          event.preventDefault();
          this.restart();
        },
      },
      this.which ? field("Show", this.which) : null,
      field("Payload has", this.inputs.text),
      field("Key", this.inputs.key),
      field("Property", this.inputs.property),
      field("Published from", this.inputs.since),
      field("until", this.inputs.until),
      field("Beginning at", this.inputs.from),
      h("div.field.buttons", {}, h("button.primary", { type: "submit" }, "Search"), h("button", { type: "button", onclick: () => this.#clear() }, "Clear")),
    );
    this.trouble = h("p.problem", { role: "alert", hidden: true });
    this.status = h("span", { role: "status" });
    this.earlier = h("button", { type: "button", disabled: true, onclick: () => this.#back() }, "Previous");
    this.later = h("button", { type: "button", disabled: true, onclick: () => this.#on() }, "Next");
    this.stopper = h("button", { type: "button", hidden: true, onclick: () => this.stop?.abort() }, "Stop");
    this.body = h("tbody");
    this.all = h("input", { type: "checkbox", "aria-label": "Choose all on this page", onchange: () => this.#chooseAll() });
    this.selection = h("div.selection", { hidden: true, role: "group", "aria-label": "Chosen messages" });
    this.may = this.backlog && this.rights.skip;
    const heads = ["Id", "Published", "Key", "Payload", "Size", this.backlog ? "State" : null].filter(Boolean);
    this.columns = heads.length + (this.may ? 2 : 1);
    this.node = h(
      "div.messages",
      {},
      form,
      this.trouble,
      h("div.bar", {}, this.status, this.stopper, h("span.grow"), h("button", { type: "button", onclick: () => this.load() }, "Refresh"), this.earlier, this.later),
      this.selection,
      h(
        "div.table-box",
        { tabindex: "0", role: "region", "aria-label": "Messages" },
        h(
          "table.messages-table",
          {},
          h("caption.unseen", {}, "Messages"),
          h("thead", {}, h("tr", {}, this.may ? h("th.tick", {}, this.all) : null, h("th.tick", {}, h("span.unseen", {}, "Open")), heads.map((head) => h("th", { scope: "col", class: head === "Size" ? "number" : null }, head)))),
          this.body,
        ),
      ),
    );
  }

  #clear() {
    for (const input of Object.values(this.inputs)) input.value = "";
    if (this.which) this.which.value = "";
    this.restart();
  }

  #query() {
    const { text, key, property, since, until } = this.inputs;
    const [name, ...value] = property.value.trim().split("=");
    const query = {
      text: text.value,
      key: key.value.trim(),
      property: name,
      value: value.length ? value.join("=") : "",
      since: since.value ? new Date(since.value).getTime() : "",
      until: until.value ? new Date(until.value).getTime() : "",
    };
    if (this.which?.value === "all") query.acked = "true";
    return query;
  }

  // ---- Pages ---------------------------------------------------------------

  restart() {
    const from = this.inputs.from.value.trim();
    if (from && parseId(from) === null) {
      this.#complain("An id is ledger:entry, or ledger:entry:index in a batch.");
      this.inputs.from.focus();
      return null;
    }
    this.pages = [from];
    return this.load();
  }

  #on() {
    this.pages.push(this.next);
    return this.load();
  }

  #back() {
    this.pages.pop();
    return this.load();
  }

  #complain(text) {
    this.trouble.hidden = text === "";
    setText(this.trouble, text);
  }

  // Asks until the page is full, or there is no more, or somebody has seen enough.
  async load() {
    this.stop?.abort();
    const stop = (this.stop = new AbortController());
    const path = this.backlog ? subscriptionPath(this.names) : topicPath(this.names);
    const query = { ...this.#query(), limit: PAGE };
    let from = this.pages.at(-1);
    const found = [];
    let searched = 0;
    this.#complain("");
    this.stopper.hidden = false;
    this.later.disabled = this.earlier.disabled = true;
    try {
      do {
        const page = await this.app.api.get(`${path}/messages`, { ...query, from, limit: PAGE - found.length }, { signal: stop.signal });
        found.push(...page.messages);
        searched += page.searched;
        from = page.next;
        setText(this.status, `Searched ${plural(searched, "entry", "entries")}…`);
      } while (from !== null && found.length < PAGE);
    } catch (error) {
      if (this.stop !== stop) return; // another search began
      if (!stop.signal.aborted) this.#complain(sentence(error.message));
    }
    if (this.stop !== stop) return;
    this.next = from;
    this.stopper.hidden = true;
    this.later.disabled = from === null || from === "";
    this.earlier.disabled = this.pages.length < 2;
    this.#show(found, searched, stop.signal.aborted);
  }

  #show(messages, searched, stopped) {
    this.messages = messages;
    replace(this.body, messages.map((message) => this.#row(message)));
    if (!messages.length) showNone(this.body, this.columns);
    const words = messages.length ? plural(messages.length, "message") : "No messages";
    setText(this.status, `${words}${this.pages.length > 1 ? `, page ${this.pages.length}` : ""}; ${plural(searched, "entry", "entries")} looked at${stopped ? ", then stopped" : ""}`);
    this.#showSelection();
  }

  #row(message) {
    const id = idOf(message);
    const opener = h("button.opener", { type: "button", "aria-expanded": "false", "aria-label": `Open message ${id}` }, "▸");
    const tick = this.may
      ? h("input", {
          type: "checkbox",
          "aria-label": `Choose message ${id}`,
          checked: this.chosen.has(id),
          onchange: () => {
            if (tick.checked) this.chosen.set(id, message);
            else this.chosen.delete(id);
            this.#showSelection();
          },
        })
      : null;
    const marks = [
      message.chunk && badge(`${message.chunk.of} chunks`),
      isDeadLetter(message) && badge("dead letter"),
      message.encrypted && badge("encrypted"),
      message.fault && badge("unreadable", "error"),
      message.nullValue && badge("null"),
      message.state === "aborted" && badge("aborted"),
    ];
    const row = h(
      "tr",
      { "data-id": id },
      tick ? h("td.tick", {}, tick) : null,
      h("td.tick", {}, opener),
      h("td.id", {}, id),
      h("td.when", {}, time(message.publishTime)),
      h("td.key", {}, message.key ?? ""),
      h("td.preview", {}, marks.filter(Boolean).flatMap((mark) => [mark, " "]), preview(fromBase64(message.payload), message.payloadSize)),
      h("td.number", {}, bytes(message.chunk?.size || message.payloadSize)),
      this.backlog ? h("td.message-state", {}, stateBadge(message)) : null,
    );
    let detail = null;
    opener.addEventListener("click", () => {
      const open = detail === null;
      opener.setAttribute("aria-expanded", String(open));
      setText(opener, open ? "▾" : "▸");
      if (open) {
        detail = h("tr.detail", {}, h("td", { colspan: this.columns }, new PayloadView(this.app, this.names, message, this.schemas).node));
        row.after(detail);
      } else {
        detail.remove();
        detail = null;
      }
    });
    return row;
  }

  // ---- What is chosen ------------------------------------------------------

  #chooseAll() {
    for (const message of this.messages) {
      if (this.all.checked) this.chosen.set(idOf(message), message);
      else this.chosen.delete(idOf(message));
    }
    for (const tick of this.body.querySelectorAll("td.tick input")) tick.checked = this.all.checked;
    this.#showSelection();
  }

  #showSelection() {
    const size = this.chosen.size;
    this.all.checked = size > 0 && this.messages.every((one) => this.chosen.has(idOf(one)));
    this.all.indeterminate = size > 0 && !this.all.checked;
    this.selection.hidden = size === 0;
    if (!size) return;
    const letters = [...this.chosen.values()].every(isDeadLetter);
    replace(
      this.selection,
      h("strong", {}, `${count(size)} chosen`),
      h("button.danger", { type: "button", onclick: () => this.#skip() }, "Skip…"),
      letters ? h("button", { type: "button", onclick: () => this.#redrive() }, "Redrive…") : null,
      h("button", { type: "button", onclick: () => this.#forget() }, "Clear the choice"),
    );
  }

  #forget() {
    this.chosen.clear();
    for (const tick of this.body.querySelectorAll("td.tick input")) tick.checked = false;
    this.#showSelection();
  }

  async #skip() {
    await this.#act(skipMessages);
  }

  async #redrive() {
    await this.#act(redriveMessages);
  }

  async #act(work) {
    const done = await work(this.app, this.names, [...this.chosen.values()]);
    if (!done) return;
    this.chosen.clear();
    await this.load();
    this.app.refresh();
  }
}

function showNone(body, columns) {
  body.append(h("tr", {}, h("td.empty-row", { colspan: columns }, "No messages here.")));
}

function stateBadge(message) {
  const state = message.state === "held" ? `with ${message.consumer || "a consumer"}` : message.state;
  const text = state + (message.redeliveries > 0 ? `, redelivered ${message.redeliveries}×` : "");
  return h(`span.state-${message.state}`, { title: text }, text);
}
