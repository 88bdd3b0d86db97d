// A payload in the forms that people read: text, JSON, Avro by its schema, hexadecimal.

import { avroText, decodeAvro } from "./avro.js";

// What is longer is not indented: it would take seconds.
const JSON_MAX = 2_000_000;

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

export function toBase64(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  }
  return btoa(text);
}

// The text, or null if the bytes are none.
export function asText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

// As `asText`, for the beginning of something longer: a character that is cut off is left out.
export function asTextSoFar(bytes) {
  for (let cut = 0; cut < 4 && cut <= bytes.length; cut++) {
    const text = asText(bytes.subarray(0, bytes.length - cut));
    if (text !== null) return text;
  }
  return null;
}

export function isJson(text) {
  try {
    JSON.parse(text);
    return /^\s*[[{"]/.test(text);
  } catch {
    return false;
  }
}

// JSON with line breaks. The text itself is indented, so that no number is rounded by it and no
// name that is there twice gets lost.
export function indentJson(text) {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const token of text.match(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/gs) ?? []) {
    if (token === "{" || token === "[") {
      depth += 1;
      out += token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      out = /[[{]\s*$/.test(out) ? out.trimEnd() + token : out + line() + token;
    } else {
      out += token === "," ? token + line() : token === ":" ? ": " : token;
    }
  }
  return out;
}

export function asHex(bytes, limit = 4096) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, limit); at += 16) {
    const row = bytes.subarray(at, Math.min(at + 16, limit));
    const digits = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
    const text = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "."));
    const left = digits.slice(0, 8).join(" ").padEnd(23);
    const right = digits.slice(8).join(" ").padEnd(23);
    lines.push(`${at.toString(16).padStart(6, "0")}  ${left}  ${right}  ${text.join("")}`);
  }
  if (bytes.length > limit) lines.push(`… ${bytes.length - limit} bytes more`);
  return lines.join("\n");
}

// The forms that a payload has, the best first: [{name, text}]. `schema` is that of the message.
export function formsOf(bytes, { whole = true, schema = null } = {}) {
  const forms = [];
  if (whole && schema?.type === "AVRO") {
    try {
      forms.push({ name: "Avro", text: avroText(decodeAvro(JSON.parse(schema.data), bytes)) });
    } catch (error) {
      forms.push({ name: "Avro", text: `The schema does not fit: ${error.message}.`, fault: true });
    }
  }
  const text = whole ? asText(bytes) : asTextSoFar(bytes);
  if (text !== null && whole && text.length < JSON_MAX && isJson(text)) forms.push({ name: "JSON", text: indentJson(text) });
  if (text !== null) forms.push({ name: "Text", text });
  forms.push({ name: "Hex", text: asHex(bytes) });
  return forms;
}

// What a list shows of a payload: one line.
export function preview(bytes, size) {
  const text = asTextSoFar(bytes);
  const shown = text === null ? asHex(bytes.subarray(0, 16)).slice(8, 56).trim() : text;
  const line = shown.replace(/\s+/g, " ").slice(0, 160);
  return line.length < shown.length || size > bytes.length ? `${line}…` : line;
}
