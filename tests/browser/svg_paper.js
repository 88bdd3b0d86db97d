// Has the console's map drawn on SVG: run in a page of the console by test_console_picture.py.
// Left the map, right one of its batches from near, and what the colours mean.

async ([width, side, topic]) => {
  const { AckView } = await import("/console/ui/ack_view.js");
  const path = `/admin/v2/persistent/${topic}/subscription/work/ackMap`;
  const view = new AckView({
    ask: (query) => fetch(`${path}?${new URLSearchParams(query)}`).then((answer) => answer.json()),
    nextHole: () => null,
    onPick: () => {},
  });
  view.node.style.setProperty("width", `${width}px`);
  view.node.style.setProperty("position", "absolute");
  document.body.append(view.node);

  // One canvas becomes one list of shapes, those of one kind together: cells do not overlap.
  const sheets = new Map();
  const round = (value) => String(Math.round(value * 10) / 10);
  class Paper {
    constructor(height) {
      this.height = height;
      this.shapes = new Map();
      this.globalAlpha = 1;
    }

    #add(kind, colour, data) {
      const look = `${kind}="${colour}"${this.globalAlpha < 1 ? ` opacity="${Math.round(this.globalAlpha * 100) / 100}"` : ""}`;
      this.shapes.set(look, (this.shapes.get(look) ?? "") + data);
    }

    fillRect(x, y, w, h) {
      this.#add("fill", this.fillStyle, `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h-${round(w)}z`);
    }

    strokeRect(x, y, w, h) {
      const data = `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h-${round(w)}z`;
      this.#add(`fill="none" stroke-width="${round(this.lineWidth)}" stroke`, this.strokeStyle, data);
    }
  }
  view.paper = (canvas, _, height) => {
    const paper = new Paper(height);
    sheets.set(canvas, paper);
    return paper;
  };
  const draw = () => {
    view.cursor = -1; // nobody has chosen a cell
    view.draw();
    return [sheets.get(view.strip), sheets.get(view.canvas)];
  };
  await view.refresh();
  const [strip, map] = draw();
  const keys = [...view.legend.querySelectorAll("li:not([hidden])")];
  const legend = keys.map((key) => [key.querySelector(".swatch").classList[1], key.children[1].textContent, key.children[2].textContent]);
  const said = view.range.textContent;
  const { columns, size } = view.grid;

  // The batch of which most is acked one by one, far to the right, from near.
  const parts = view.map.batches.filter((one) => one.left > 1 && one.entry % columns > columns - 8);
  const chosen = parts.reduce((most, one) => (one.left > most.left ? one : most));
  view.cursor = chosen.entry;
  view.node.style.setProperty("width", "180px"); // five cells
  view.zoomIn();
  const [, near] = draw();
  view.close();

  const { colour } = view;
  const margin = 18;
  const at = margin + width + 26;
  const mapY = margin + 24 + strip.height + 6;
  const group = (paper, x, y) =>
    `<g transform="translate(${x} ${y})">\n${[...paper.shapes].map(([look, data]) => `<path ${look} d="${data}"/>`).join("\n")}\n</g>`;
  const words = (x, y, text, more = "") => `<text x="${x}" y="${y}"${more}>${text}</text>`;
  const bold = ' font-weight="600"';
  const swatch = (name, y) => {
    const box = (fill, more = "") => `<rect x="${at}" y="${y - 10}" width="11" height="11" rx="2" fill="${fill}"${more}/>`;
    if (name === "held") return `<rect x="${at + 1}" y="${y - 9}" width="9" height="9" rx="1.5" fill="none" stroke="${colour.held}" stroke-width="2"/>`;
    if (name === "partial") return `${box(colour.acked)}<rect x="${at}" y="${y - 4}" width="11" height="5" fill="${colour.left}"/>`;
    return box(colour[name]);
  };
  const nearY = mapY + 26;
  const legendY = nearY + near.height + 46;
  const lines = legend.map(([name, text, count], i) => {
    const y = legendY + 22 * i;
    return `${swatch(name, y)}${words(at + 20, y, text)}${words(at + side, y, count, ' text-anchor="end" font-weight="600"')}`;
  });
  const cell = [margin + (chosen.entry % columns) * size, mapY + Math.floor(chosen.entry / columns) * size];
  const ray = (y, to) => `M${cell[0] + size} ${y}L${at - 6} ${to}`;
  const rays = `<path fill="none" stroke="${colour.accent}" stroke-width="1" opacity="0.7" d="M${cell[0] - 0.5} ${cell[1] - 0.5}h${size}v${size}h-${size}z${ray(cell[1], nearY - 4)}${ray(cell[1] + size, nearY + near.height + 2)}"/>`;
  const whole = at + side + margin;
  const height = Math.round(Math.max(mapY + map.height, legendY + 22 * legend.length - 12) + margin);
  const batch = `One batch: ${chosen.left} of ${chosen.size} are left`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${whole} ${height}" font-family="system-ui, sans-serif" font-size="12.5" role="img">
<title>What a subscription has acked, as the console draws it</title>
<rect x="0.5" y="0.5" width="${whole - 1}" height="${height - 1}" rx="8" fill="${colour.panel}" stroke="${colour.line}"/>
${group(strip, margin, margin + 24)}
${group(map, margin, mapY)}
${group(near, at, nearY)}
${rays}
<g fill="${colour.ink}">
${words(margin, margin + 14, `The whole topic, and below it ${said}`, bold)}
${words(at, nearY - 12, batch, bold)}
${lines.join("\n")}
</g>
</svg>
`;
}
