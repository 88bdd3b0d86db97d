// Numbers, sizes and times as people read them.

const WHOLE = new Intl.NumberFormat("en");
const ONE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(value) {
  return WHOLE.format(value);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

function scaled(value, step, units) {
  let at = 0;
  while (Math.abs(value) >= step && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  return `${(at === 0 ? WHOLE : ONE).format(value)}${units[at]}`;
}

// 12,345 stays; from a hundred thousand on it is 123.5 k.
export function short(value) {
  return Math.abs(value) < 100_000 ? count(value) : scaled(value, 1000, ["", " k", " M", " G"]);
}

export function bytes(value) {
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
}

export function rate(value) {
  return value > 0 && value < 10 ? ONE.format(value) : short(Math.round(value));
}

export function age(ms) {
  const seconds = Math.floor(Math.max(ms, 0) / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  const days = Math.floor(hours / 24);
  return days < 100 ? `${days} d ${hours % 24} h` : `${count(days)} d`;
}

// In the zone of whoever reads, to the millisecond.
export function time(ms) {
  if (!(ms > 0) || ms > 8.64e15) return "";
  const at = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${clock}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

// What a date field holds, in the same zone.
export function localField(ms) {
  return time(ms).slice(0, 19).replace(" ", "T");
}

export function ago(ms, nowMs) {
  return ms > 0 ? `${age(nowMs - ms)} ago` : "never";
}

export function percent(part, whole) {
  if (whole <= 0) return "0 %";
  const value = (100 * part) / whole;
  return `${value > 0 && value < 1 ? "< 1" : Math.floor(value)} %`;
}
