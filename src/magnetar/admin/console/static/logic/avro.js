// Avro's binary encoding, read by a schema: enough to show what a message says.
// https://avro.apache.org/docs/1.12.0/specification/

const PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
const ITEMS_MAX = 100_000;

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
    this.items = 0;
  }

  take(size) {
    if (size < 0 || this.at + size > this.bytes.length) throw new Error("it ends too early");
    const found = this.bytes.subarray(this.at, this.at + size);
    this.at += size;
    return found;
  }

  // Zigzag, of up to 64 bits; a number where that is exact.
  long() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const [byte] = this.take(1);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) {
        const signed = BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
        return Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
      }
    }
    throw new Error("a number has too many bytes");
  }

  size() {
    return Number(this.long());
  }
}

function named(schema, names, space) {
  const own = schema.name ?? "";
  const full = own.includes(".") ? own : (schema.namespace ?? space) ? `${schema.namespace ?? space}.${own}` : own;
  names.set(full, schema);
  names.set(own, schema);
  return full.includes(".") ? full.slice(0, full.lastIndexOf(".")) : "";
}

function read(schema, reader, names, space, depth) {
  if (depth > 64) throw new Error("it is nested too deeply");
  if (++reader.items > ITEMS_MAX) throw new Error(`it has more than ${ITEMS_MAX} values`);
  if (Array.isArray(schema)) {
    const branch = schema[reader.size()];
    if (branch === undefined) throw new Error("a union has no such branch");
    return read(branch, reader, names, space, depth + 1);
  }
  const type = typeof schema === "string" ? schema : schema.type;
  if (typeof type !== "string") return read(type, reader, names, space, depth + 1);
  if (PRIMITIVES.includes(type)) return primitive(type, schema, reader);
  if (type === "record" || type === "error") {
    const inner = named(schema, names, space);
    const found = {};
    for (const field of schema.fields) {
      const value = read(field.type, reader, names, inner, depth + 1);
      Object.defineProperty(found, field.name, { value, enumerable: true });
    }
    return found;
  }
  if (type === "enum") {
    named(schema, names, space);
    return schema.symbols[reader.size()];
  }
  if (type === "fixed") {
    named(schema, names, space);
    return hex(reader.take(schema.size));
  }
  if (type === "array" || type === "map") return blocks(schema, type, reader, names, space, depth);
  const known = names.get(type) ?? names.get(space ? `${space}.${type}` : type);
  if (known === undefined) throw new Error(`the schema has no type ${type}`);
  return read(known, reader, names, space, depth + 1);
}

function primitive(type, schema, reader) {
  if (type === "null") return null;
  if (type === "boolean") return reader.take(1)[0] === 1;
  if (type === "float" || type === "double") {
    const size = type === "float" ? 4 : 8;
    const at = reader.at;
    reader.take(size);
    return type === "float" ? reader.view.getFloat32(at, true) : reader.view.getFloat64(at, true);
  }
  if (type === "bytes") return hex(reader.take(reader.size()));
  if (type === "string") return new TextDecoder("utf-8", { fatal: false }).decode(reader.take(reader.size()));
  const value = reader.long();
  return logical(schema.logicalType, value);
}

function logical(kind, value) {
  const number = Number(value);
  if (kind === "timestamp-millis") return new Date(number).toISOString();
  if (kind === "timestamp-micros") return new Date(number / 1000).toISOString();
  if (kind === "date") return new Date(number * 86_400_000).toISOString().slice(0, 10);
  return value;
}

function blocks(schema, type, reader, names, space, depth) {
  const found = type === "array" ? [] : {};
  for (let left = reader.size(); left !== 0; left = reader.size()) {
    if (left < 0) {
      left = -left;
      reader.size();
    }
    for (; left > 0; left--) {
      if (type === "array") {
        found.push(read(schema.items, reader, names, space, depth + 1));
        continue;
      }
      const key = new TextDecoder().decode(reader.take(reader.size()));
      const value = read(schema.values, reader, names, space, depth + 1);
      Object.defineProperty(found, key, { value, enumerable: true, configurable: true });
    }
  }
  return found;
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The value of a message by the schema that it was written with. Throws Error.
export function decodeAvro(schema, bytes) {
  const reader = new Reader(bytes);
  const value = read(schema, reader, new Map(), "", 0);
  if (reader.at !== bytes.length) throw new Error(`${bytes.length - reader.at} bytes are left over`);
  return value;
}

// As JSON text; numbers that JavaScript's own would round are written as they are.
export function avroText(value, indent = "") {
  if (typeof value === "bigint") return String(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = `${indent}  `;
  const list = Array.isArray(value);
  const parts = list
    ? value.map((one) => `${inner}${avroText(one, inner)}`)
    : Object.keys(value).map((key) => `${inner}${JSON.stringify(key)}: ${avroText(value[key], inner)}`);
  const [open, close] = list ? "[]" : "{}";
  return parts.length ? `${open}\n${parts.join(",\n")}\n${indent}${close}` : `${open}${close}`;
}
