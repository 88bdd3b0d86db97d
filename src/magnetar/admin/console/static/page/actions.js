// What changes something: each asks first, naming what it is about, and says what came of it.

import { count, localField, plural } from "../logic/format.js";
import { idOf, nameOf, parseId, parseProperties } from "../logic/message.js";
import { fromBase64, isJson, preview } from "../logic/payload.js";
import { routeTo, subscriptionPath, topicNames, topicPath, topicText } from "../logic/route.js";
import { visible } from "../logic/visible.js";
import { ask, field, select, sentence, tell, toast } from "../ui/dialog.js";
import { h, replace } from "../ui/dom.js";

const SHOWN = 50;

function nameOfSubscription(names) {
  return [h("strong", {}, names[4]), " of ", h("strong", {}, topicText(names))];
}

// ---- Messages --------------------------------------------------------------------------

function listed(messages) {
  const rows = messages.slice(0, SHOWN).map((message) =>
    h(
      "tr",
      {},
      h("td.id", {}, idOf(message)),
      h("td.key", {}, message.key ?? ""),
      h("td.preview", {}, preview(fromBase64(message.payload), message.payloadSize)),
    ),
  );
  const more = messages.length - rows.length;
  return h(
    "div.table-box.short",
    { tabindex: "0", role: "region", "aria-label": "The messages" },
    h("table", {}, h("caption.unseen", {}, "The messages"), h("thead", {}, h("tr", {}, ["Id", "Key", "Payload"].map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)),
    more > 0 ? h("p.dim", {}, `and ${count(more)} more`) : null,
  );
}

// True if it was done.
export async function skipMessages(app, names, messages) {
  const result = await ask({
    title: `Skip ${plural(messages.length, "message")}`,
    about: [
      h("p", {}, messages.length === 1 ? "It is acked for " : "They are acked for ", nameOfSubscription(names), ", and nothing else is. Consumers give back what they hold of it. This cannot be taken back."),
      listed(messages),
    ],
    action: `Skip ${plural(messages.length, "message")}`,
    danger: true,
    wide: true,
    act: () =>
      app.api.send("POST", `${subscriptionPath(names)}/skipByMessageIds`, { type: "messageId", messageIds: messages.map(nameOf) }, { details: true }),
  });
  if (result === null) return false;
  const who = (row) =>
    [
      row.takenBackFrom && `taken back from ${row.takenBackFrom.join(", ")}`,
      row.handedOutTo && `handed out before, to ${row.handedOutTo.join(", ")}`,
      row.closed && `queue emptied of ${row.closed.join(", ")}`,
      row.unconfirmed && `not confirmed by ${row.unconfirmed.join(", ")}`,
    ]
      .filter(Boolean)
      .join("; ");
  tellResults(`${plural(result.skipped, "message")} skipped`, ["Id", "Result", "Consumers"], result.messageIds, (row) => [
    idOf({ batchIndex: -1, ...row }),
    row.result,
    who(row),
  ]);
  return true;
}

function tellResults(title, heads, rows, cells) {
  const shown = rows.slice(0, 500).map((row) => h("tr", {}, cells(row).map((text, i) => h(i ? "td" : "td.id", {}, text))));
  tell({
    title,
    wide: true,
    about: h(
      "div.table-box.short.results",
      { tabindex: "0", role: "region", "aria-label": title },
      h("table", {}, h("caption.unseen", {}, title), h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, shown)),
      rows.length > shown.length ? h("p.dim", {}, `and ${count(rows.length - shown.length)} more`) : null,
    ),
  });
}

// True if any letter went back.
export async function redriveMessages(app, names, messages) {
  const to = h("input", { type: "text", spellcheck: "false", placeholder: "where each came from" });
  const targets = new Map();
  for (const message of messages) {
    const topic = message.properties.REAL_TOPIC ?? "?";
    targets.set(topic, (targets.get(topic) ?? 0) + 1);
  }
  const result = await ask({
    title: `Redrive ${plural(messages.length, "letter")}`,
    about: [
      h("p", {}, messages.length === 1 ? "It is published to where it came from, then skipped for " : "Each is published to where it came from, then skipped for ", nameOfSubscription(names), ". If the broker ends in between, a letter may be in both places."),
      h("ul", {}, [...targets].map(([topic, number]) => h("li", {}, `${count(number)} to `, h("strong", {}, topic)))),
      listed(messages),
    ],
    fields: [field("To another topic instead", to)],
    action: `Redrive ${plural(messages.length, "letter")}`,
    wide: true,
    act: () => {
      const body = { messageIds: messages.map(nameOf) };
      if (to.value.trim()) body.to = to.value.trim();
      return app.api.send("POST", `${subscriptionPath(names)}/redrive`, body);
    },
  });
  if (result === null) return false;
  tellResults(`${plural(result.redriven, "letter")} redriven`, ["Id", "Result", "To"], result.messageIds, (row) => [
    idOf(row),
    row.result,
    row.messageId ? `${row.topic}, as ${row.messageId}` : "",
  ]);
  return result.redriven > 0;
}

export function produceForm(app, names) {
  const payload = h("textarea", { rows: "14", spellcheck: "false" });
  const key = h("input", { type: "text", spellcheck: "false" });
  const properties = h("textarea", { rows: "3", spellcheck: "false", placeholder: "name=value, one a line" });
  const deliver = h("input", { type: "datetime-local", step: "1" });
  const empty = h("input", { type: "checkbox", onchange: () => (payload.disabled = empty.checked) });
  const trouble = h("p.dialog-trouble", { role: "alert" });
  const done = h("p.done", { role: "status" });
  const go = h("button.primary", { type: "submit" }, "Publish");
  const json = h("span.hint");
  payload.addEventListener("input", () => replace(json, payload.value.trim() && isJson(payload.value) ? "valid JSON" : ""));
  return h(
    "form.panel.produce",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        replace(trouble);
        replace(done);
        go.disabled = true;
        try {
          const message = {};
          if (!empty.checked) message.payload = payload.value;
          if (key.value) message.key = key.value;
          if (properties.value.trim()) message.properties = parseProperties(properties.value);
          if (deliver.value) message.deliverAt = new Date(deliver.value).getTime();
          const path = `/topics/${names.slice(0, 4).map(encodeURIComponent).join("/")}`;
          const { messagePublishResults } = await app.api.send("POST", path, { messages: [message] });
          const [result] = messagePublishResults;
          if (result.errorCode) replace(trouble, sentence(result.errorMsg));
          else replace(done, `Published as ${result.messageId}.`);
        } catch (error) {
          replace(trouble, sentence(error.message));
        }
        go.disabled = false;
      },
    },
    h("h2", {}, "Publish a message"),
    h(
      "div.produce-parts",
      {},
      h("div", {}, field("Payload", payload), json, h("label.check", {}, empty, " without a value (null)")),
      h(
        "div",
        {},
        field("Key", key, "Messages of one key go to one partition."),
        field("Properties", properties),
        field("Not before", deliver, "Shared and Key_Shared subscriptions deliver it then."),
      ),
    ),
    trouble,
    done,
    h("div.dialog-buttons", {}, go),
  );
}

// ---- Topics ----------------------------------------------------------------------------

export async function createTopic(app) {
  const name = h("input", { type: "text", required: true, spellcheck: "false", placeholder: "persistent://public/default/orders" });
  const partitions = h("input", { type: "number", min: "0", max: "10000", value: "0" });
  let made = null;
  const done = await ask({
    title: "Create a topic",
    fields: [field("Name", name, "A short name is one of public/default."), field("Partitions", partitions, "0 for a topic without partitions.")],
    action: "Create",
    ready: () => name.value.trim() !== "",
    act: async () => {
      const given = name.value.trim();
      const whole = given.includes("://") ? given : `persistent://${given.split("/").length === 3 ? given : `public/default/${given}`}`;
      made = topicNames(whole);
      const number = Number(partitions.value);
      if (number > 0) await app.api.send("PUT", `${topicPath(made)}/partitions`, number);
      else await app.api.send("PUT", topicPath(made));
    },
  });
  if (done === null) return;
  toast(`Created ${topicText(made)}.`);
  app.go(routeTo("topic", made));
}

export async function deleteTopic(app, names, partitions) {
  const typed = h("input", { type: "text", spellcheck: "false", autocomplete: "off" });
  const done = await ask({
    title: "Delete a topic",
    about: h("p", {}, "This deletes ", h("strong", {}, topicText(names)), partitions ? ` with its ${partitions} partitions` : "", ": all its messages, subscriptions and schemas, and closes its clients. It cannot be taken back."),
    fields: [field(`Type ${names[3]} to confirm`, typed)],
    action: "Delete the topic",
    danger: true,
    ready: () => [names[3], visible(names[3])].includes(typed.value),
    act: () => app.api.send("DELETE", `${topicPath(names)}${partitions ? "/partitions" : ""}`, undefined, { force: true }),
  });
  if (done === null) return;
  toast(`Deleted ${topicText(names)}.`);
  app.go(routeTo("topics"));
}

export async function unloadTopic(app, names) {
  const done = await ask({
    title: "Unload a topic",
    about: h("p", {}, "The producers and consumers of ", h("strong", {}, topicText(names)), " are closed and connect anew. Nothing is lost."),
    action: "Unload",
    act: () => app.api.send("PUT", `${topicPath(names)}/unload`),
  });
  if (done !== null) toast(`Unloaded ${topicText(names)}.`);
  app.refresh();
}

// ---- Subscriptions ---------------------------------------------------------------------

export async function createSubscription(app, names) {
  const name = h("input", { type: "text", required: true, spellcheck: "false" });
  const place = select([["latest", "at the end: what is published from now on"], ["earliest", "at the beginning: all that is stored"]], "latest");
  const done = await ask({
    title: "Create a subscription",
    about: h("p", {}, "Of ", h("strong", {}, topicText(names)), "."),
    fields: [field("Name", name), field("Begins", place)],
    action: "Create",
    ready: () => name.value.trim() !== "",
    act: () => app.api.send("PUT", subscriptionPath([...names.slice(0, 4), name.value]), place.value),
  });
  if (done !== null) toast(`Created the subscription ${name.value}.`);
  app.refresh();
}

export async function deleteSubscription(app, names) {
  const typed = h("input", { type: "text", spellcheck: "false", autocomplete: "off" });
  const done = await ask({
    title: "Delete a subscription",
    about: h("p", {}, "This deletes ", nameOfSubscription(names), ": what it has acked is forgotten, and its consumers are closed. It cannot be taken back."),
    fields: [field(`Type ${names[4]} to confirm`, typed)],
    action: "Delete the subscription",
    danger: true,
    ready: () => [names[4], visible(names[4])].includes(typed.value),
    act: () => app.api.send("DELETE", subscriptionPath(names), undefined, { force: true }),
  });
  if (done === null) return;
  toast(`Deleted the subscription ${names[4]}.`);
  app.go(routeTo("topic", names.slice(0, 4)));
}

export async function resetCursor(app, names) {
  const kind = select([["time", "a time"], ["id", "a message id"], ["earliest", "the beginning"], ["latest", "the end"]], "time", () => show());
  const when = h("input", { type: "datetime-local", step: "1", value: localField(Date.now() - 3_600_000) });
  const id = h("input", { type: "text", spellcheck: "false", placeholder: "ledger:entry or ledger:entry:index" });
  const timeField = field("Time", when, "The first message published then or later is the next.");
  const idField = field("Message id", id, "That message is the next.");
  const show = () => {
    timeField.hidden = kind.value !== "time";
    idField.hidden = kind.value !== "id";
  };
  show();
  const done = await ask({
    title: "Reset the cursor",
    about: h("p", {}, "Moves ", nameOfSubscription(names), ". What was acked behind the new place comes again; what is unacked before it does not. Consumers connect anew."),
    fields: [field("To", kind), timeField, idField],
    action: "Reset",
    danger: true,
    ready: () => (kind.value === "time" ? when.value !== "" : kind.value === "id" ? parseId(id.value) !== null : true),
    act: () => {
      const path = `${subscriptionPath(names)}/resetcursor`;
      if (kind.value === "time") return app.api.send("POST", `${path}/${new Date(when.value).getTime()}`);
      return app.api.send("POST", path, kind.value === "id" ? nameOf(parseId(id.value)) : kind.value);
    },
  });
  if (done !== null) toast(`Moved ${names[4]}.`);
  app.refresh();
}

export async function skipAll(app, names, backlog) {
  const done = await ask({
    title: "Skip everything",
    about: h("p", {}, `All ${plural(backlog, "entry", "entries")} that `, nameOfSubscription(names), " has not acked are acked. This cannot be taken back."),
    action: "Skip everything",
    danger: true,
    act: () => app.api.send("POST", `${subscriptionPath(names)}/skip_all`),
  });
  if (done !== null) toast(`Skipped the backlog of ${names[4]}.`);
  app.refresh();
}

