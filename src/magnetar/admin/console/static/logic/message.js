// Messages by their ids, and what a list of them says.

export function idOf(message) {
  const place = `${message.ledgerId}:${message.entryId}`;
  return message.batchIndex >= 0 ? `${place}:${message.batchIndex}` : place;
}

// As requests name a message; a batch index only where there is one.
export function nameOf(message) {
  const { ledgerId, entryId, batchIndex } = message;
  return batchIndex >= 0 ? { ledgerId, entryId, batchIndex } : { ledgerId, entryId };
}

export function isDeadLetter(message) {
  return Object.hasOwn(message.properties, "REAL_TOPIC");
}

// `5:2` or `5:2:1` as somebody writes it; null if it is none.
export function parseId(text) {
  const found = /^\s*(\d{1,16}):(\d{1,10})(?::(\d{1,7}))?\s*$/.exec(text);
  if (found === null) return null;
  const [, ledgerId, entryId, index] = found;
  return { ledgerId: Number(ledgerId), entryId: Number(entryId), batchIndex: index === undefined ? -1 : Number(index) };
}

// "name=value", one a line, as an object. Throws Error.
export function parseProperties(text) {
  const found = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line}” is no name=value`);
    Object.defineProperty(found, line.slice(0, at).trim(), { value: line.slice(at + 1), enumerable: true, configurable: true });
  }
  return found;
}
