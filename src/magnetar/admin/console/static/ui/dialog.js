// Dialogs: they name what they are about, and nothing is done before somebody says so.

import { h, put, replace } from "./dom.js";

let numbers = 0;

// Shows a form and resolves to what `act` gave when it succeeded, or to null if it was dismissed.
// `fields` are nodes; `act` may throw, and then the dialog stays and says why.
export function ask({ title, about = [], fields = [], action, danger = false, act, ready = null, wide = false }) {
  numbers += 1;
  const id = `dialog-${numbers}`;
  const before = document.activeElement;
  return new Promise((resolve) => {
    const trouble = h("p.dialog-trouble", { role: "alert" });
    const go = h(`button.${danger ? "danger" : "primary"}`, { type: "submit" }, action);
    const no = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    let result = null;
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id }, title),
      h("div.dialog-about", {}, about),
      fields,
      trouble,
      h("div.dialog-buttons", {}, no, go),
    );
    const dialog = h(`dialog${wide ? ".wide" : ""}`, { "aria-labelledby": id }, form);
    const check = () => {
      go.disabled = ready !== null && !ready();
    };
    form.addEventListener("input", check);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      replace(trouble);
      try {
        result = (await act()) ?? true;
        dialog.close();
      } catch (error) {
        replace(trouble, sentence(error.message));
        check();
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before instanceof HTMLElement) before.focus();
      resolve(result);
    });
    document.body.append(dialog);
    check();
    dialog.showModal();
    // What destroys is not what Enter does first.
    const first = form.querySelector("input, textarea, select");
    (first ?? (danger ? no : go)).focus();
  });
}

// Shows something until it is closed.
export function tell({ title, about, wide = false }) {
  numbers += 1;
  const id = `dialog-${numbers}`;
  const before = document.activeElement;
  const close = h("button.primary", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h(
    `dialog${wide ? ".wide" : ""}`,
    { "aria-labelledby": id },
    h("h2", { id }, title),
    h("div.dialog-about", {}, about),
    h("div.dialog-buttons", {}, close),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement) before.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}

export function field(label, control, hint = "") {
  numbers += 1;
  control.id ||= `field-${numbers}`;
  const help = hint ? h("span.hint", { id: `${control.id}-hint` }, hint) : null;
  if (help) control.setAttribute("aria-describedby", help.id);
  return h("div.field", {}, h("label", { for: control.id }, label), control, help);
}

export function select(options, value, onchange = null) {
  const node = h("select", { onchange });
  for (const [id, text] of options) put(node, [h("option", { value: id }, text)]);
  node.value = value;
  return node;
}

export function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

let shown = null;

// A line that says what was done, read aloud too.
export function toast(text) {
  shown ??= document.body.appendChild(h("div.toasts", { role: "status", "aria-live": "polite" }));
  const node = h("div.toast", {}, text);
  shown.append(node);
  setTimeout(() => node.remove(), 6000);
}
