// Where in the console somebody is: the part of the address behind `#`, so that links and the
// browser's back button work, and no server is asked for it.
//
//   #/topics?order=age            page and query
//   #/topic/persistent/public/default/orders/messages
//
// Names are encoded piece by piece; they may have anything in them.

export const TABS = {
  topic: ["overview", "messages", "produce"],
  subscription: ["acks", "messages", "consumers"],
};
const NAMES = { topic: 4, subscription: 5 };
const PLAIN = ["overview", "topics", "subscriptions"];

function decoded(piece) {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}

export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const pieces = path.split("/").filter((piece) => piece !== "").map(decoded);
  const page = pieces[0] ?? "overview";
  const given = Object.fromEntries(new URLSearchParams(query));
  const count = NAMES[page];
  if (count !== undefined && pieces.length > count) {
    const names = pieces.slice(1, count + 1);
    const tab = TABS[page].includes(pieces[count + 1]) ? pieces[count + 1] : TABS[page][0];
    return { page, names, tab, query: given };
  }
  return { page: PLAIN.includes(page) ? page : "overview", names: [], tab: "", query: given };
}

export function routeTo(page, names = [], tab = "", query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(kept).toString();
  const pieces = [page, ...names.map(encodeURIComponent), ...(tab ? [tab] : [])];
  return `#/${pieces.join("/")}${text ? `?${text}` : ""}`;
}

// "persistent://tenant/namespace/name" and back.
export function topicNames(topic) {
  const [domain, rest = ""] = topic.split("://", 2);
  const [tenant = "", namespace = "", ...name] = rest.split("/");
  return [domain, tenant, namespace, name.join("/")];
}

export function topicText([domain, tenant, namespace, name]) {
  return `${domain}://${tenant}/${namespace}/${name}`;
}

export function topicPath(names) {
  return `/admin/v2/${names.slice(0, 4).map(encodeURIComponent).join("/")}`;
}

export function subscriptionPath(names) {
  return `${topicPath(names)}/subscription/${encodeURIComponent(names[4])}`;
}
