// A message, opened: what it says of itself, and its payload in the forms that it has.

import { bytes, time } from "../logic/format.js";
import { formsOf, fromBase64 } from "../logic/payload.js";
import { topicPath } from "../logic/route.js";
import { h, replace } from "./dom.js";
import { sentence } from "./dialog.js";
import { facts } from "./parts.js";

const SHOWN_MAX = 200_000;

export class PayloadView {
  constructor(app, names, message, schemas) {
    this.app = app;
    this.names = names;
    this.message = message;
    this.schemas = schemas;
    this.data = fromBase64(message.payload);
    this.whole = this.data.length === message.payloadSize && message.chunk === null;
    this.chosen = "";
    this.forms = h("div.forms");
    this.node = h("div.message-open", {}, this.#facts(), this.forms);
    this.show();
  }

  #facts() {
    const { message } = this;
    const rows = [
      ["Published", time(message.publishTime)],
      ["By", `${message.producerName}, sequence id ${message.sequenceId}`],
      message.eventTime > 0 && ["Event time", time(message.eventTime)],
      message.deliverAt > 0 && ["Not before", time(message.deliverAt)],
      message.key !== null && ["Key", message.keyIsBase64 ? `${message.key} (base64)` : message.key],
      message.orderingKey !== null && ["Ordering key", `${message.orderingKey} (base64)`],
      message.batchSize > 0 && ["In a batch", message.batchIndex < 0 ? `of ${message.batchSize}` : `number ${message.batchIndex} of ${message.batchSize}`],
      message.chunk && ["In chunks", `${message.chunk.of}, ${bytes(message.chunk.size)} together`],
      message.schemaVersion >= 0 && ["Schema version", String(message.schemaVersion)],
      message.compression && message.compression !== "NONE" && ["Compression", message.compression],
      message.encrypted && ["Encrypted", "yes: the broker cannot read it"],
      message.consumer && ["With consumer", message.consumer],
      message.redeliveries > 0 && ["Redelivered", `${message.redeliveries} times`],
      ...Object.entries(message.properties).map(([name, value]) => [h("span.property", {}, name), value]),
    ];
    return facts(rows.filter(Boolean));
  }

  async show() {
    const { message } = this;
    if (message.fault) {
      replace(this.forms, h("p.problem", {}, sentence(message.fault)));
    } else if (message.nullValue) {
      replace(this.forms, h("p.dim", {}, "It has no value (null)."));
      return;
    }
    const schema = message.schemaVersion >= 0 ? await this.schemas.of(message.schemaVersion) : null;
    const forms = formsOf(this.data, { whole: this.whole, schema });
    this.#showForms(forms);
  }

  #showForms(forms) {
    const current = forms.find((one) => one.name === this.chosen) ?? forms.find((one) => !one.fault) ?? forms[0];
    const buttons = forms.map((one) =>
      h(
        "button.form-tab",
        {
          type: "button",
          "aria-pressed": String(one === current),
          onclick: () => {
            this.chosen = one.name;
            this.#showForms(forms);
            this.forms.querySelector("[aria-pressed=true]").focus();
          },
        },
        one.name,
      ),
    );
    const long = current.text.length > SHOWN_MAX;
    const total = this.message.chunk?.size || this.message.payloadSize;
    const more = [];
    if (!this.whole && !this.message.fault) {
      more.push(h("button", { type: "button", onclick: (event) => this.#load(event.target) }, `Load all ${bytes(total)}`));
    }
    more.push(h("button", { type: "button", onclick: (event) => this.#save(event.target) }, "Save…"));
    replace(
      this.forms,
      ...(this.message.fault ? [h("p.problem", {}, sentence(this.message.fault))] : []),
      h("div.bar", { role: "group", "aria-label": "How the payload is shown" }, buttons, h("span.grow"), h("span.dim", {}, bytes(total)), more),
      h("pre.payload", { tabindex: "0", "aria-label": `Payload as ${current.name}` }, long ? current.text.slice(0, SHOWN_MAX) : current.text),
      long ? h("p.dim", {}, "The rest is too long to be shown: save it.") : "",
    );
  }

  async #fetch() {
    const { ledgerId, entryId, batchIndex } = this.message;
    const path = `${topicPath(this.names)}/ledger/${ledgerId}/entry/${entryId}/message`;
    return this.app.api.bytes(path, { batchIndex });
  }

  async #load(button) {
    button.disabled = true;
    try {
      this.data = await this.#fetch();
      this.whole = true;
      await this.show();
    } catch (error) {
      button.replaceWith(h("span.problem", {}, sentence(error.message)));
    }
  }

  async #save(button) {
    try {
      if (!this.whole) this.data = await this.#fetch();
    } catch (error) {
      button.replaceWith(h("span.problem", {}, sentence(error.message)));
      return;
    }
    const url = URL.createObjectURL(new Blob([this.data], { type: "application/octet-stream" }));
    const { ledgerId, entryId, batchIndex } = this.message;
    h("a", { href: url, download: `message-${ledgerId}-${entryId}${batchIndex < 0 ? "" : `-${batchIndex}`}.bin` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}

// The schemas of a topic by version, each asked for once.
export class Schemas {
  constructor(app, names) {
    this.app = app;
    this.path = `/admin/v2/schemas/${names.slice(1, 4).map(encodeURIComponent).join("/")}/schema`;
    this.known = new Map();
  }

  of(version) {
    if (!this.known.has(version)) {
      this.known.set(version, this.app.api.get(`${this.path}/${version}`).catch(() => null));
    }
    return this.known.get(version);
  }
}
