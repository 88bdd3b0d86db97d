// Signing in with a token, where the broker asks who it is.

import { field } from "../ui/dialog.js";
import { h, replace } from "../ui/dom.js";

export function open(main, app, reason) {
  const token = h("textarea.token", { rows: "4", spellcheck: "false", autocomplete: "off", required: true });
  const trouble = h("p.dialog-trouble", { role: "alert" });
  if (reason && app.tried) replace(trouble, reason);
  const form = h(
    "form.sign-in.panel",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        app.tried = true;
        app.api.token = token.value.trim().replace(/^Bearer\s+/i, "");
        replace(main);
        await app.begin();
      },
    },
    h("h1", {}, "Sign in"),
    h("p.dim", {}, "This broker asks who you are. Paste a token, as clients have one. It stays in this tab, and is sent to this broker only."),
    field("Token", token),
    trouble,
    h("div.dialog-buttons", {}, h("button.primary", { type: "submit" }, "Sign in")),
  );
  replace(main, form);
  token.focus();
}
