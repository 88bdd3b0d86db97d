// Has the console's map drawn on SVG: run in a page of the console by test_console_picture.py.

async ([width, topic]) => {
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

    beginPath() {
      this.path = "";
    }

    moveTo(x, y) {
      this.path += `M${round(x)} ${round(y)}`;
    }

    lineTo(x, y) {
      this.path += `L${round(x)} ${round(y)}`;
    }

    fill() {
      this.#add("fill", this.fillStyle, `${this.path}z`);
    }
  }
  view.paper = (canvas, _, height) => {
    const paper = new Paper(height);
    sheets.set(canvas, paper);
    return paper;
  };
  await view.refresh();
  view.cursor = -1; // nobody has chosen a cell
  view.draw();
  view.close();

  const margin = 16;
  const ink = getComputedStyle(document.body);
  const [strip, map] = [sheets.get(view.strip), sheets.get(view.canvas)];
  const group = (paper, y) =>
    `<g transform="translate(${margin} ${y})">\n${[...paper.shapes].map(([look, data]) => `<path ${look} d="${data}"/>`).join("\n")}\n</g>`;
  const mapY = margin + strip.height + 6;
  const legendY = mapY + map.height + 18;
  let x = margin;
  let y = legendY;
  const whole = width + 2 * margin;
  const legend = [...view.node.querySelectorAll(".legend li")].map((item) => {
    const swatch = item.querySelector(".swatch");
    const style = getComputedStyle(swatch);
    const name = swatch.classList[1];
    const text = item.textContent;
    const room = 17 + text.length * 6.3 + 14;
    if (x + room > whole) [x, y] = [margin, y + 20];
    const fill = name === "mixed" ? view.colour.left : name === "partial" ? view.colour.left : view.colour[name];
    const shape =
      name === "held"
        ? `<rect x="${x + 1}" y="${y - 9}" width="9" height="9" fill="${view.colour.acked}" stroke="${style.borderTopColor}" stroke-width="1.5"/>`
        : name === "partial"
          ? `<rect x="${x}" y="${y - 10}" width="11" height="11" fill="${view.colour.acked}"/><path d="M${x} ${y + 1}l11 -11v11z" fill="${fill}"/>`
          : name === "mixed"
            ? `<rect x="${x}" y="${y - 10}" width="11" height="11" fill="${view.colour.acked}"/><rect x="${x}" y="${y - 10}" width="11" height="11" fill="${fill}" opacity="0.6"/>`
            : `<rect x="${x}" y="${y - 10}" width="11" height="11" fill="${fill}"/>`;
    const at = x + 17;
    x = Math.round(x + room);
    return `${shape}<text x="${at}" y="${y}">${text}</text>`;
  });
  const height = Math.round(y + margin);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${whole} ${height}" font-family="system-ui, sans-serif" font-size="12" role="img">
<title>What a subscription has acked, as the console draws it</title>
<rect width="${whole}" height="${height}" rx="8" fill="${view.colour.panel}"/>
${group(strip, margin)}
${group(map, mapY)}
<g fill="${ink.color}">
${legend.join("\n")}
</g>
</svg>
`;
}
