// Colours and shapes. A region has a colour and a shape, so that neither is the only sign; its name is text beside them.

// Okabe and Ito's colours, which colour-blind people tell apart, with grey for their black. On white the pale ones are
// a little darker, on black the dark one a little lighter, or lines in them could not be seen.
const COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b8589a", "#c98a00", "#2f95cf", "#8a7d00", "#57606e"],
  dark: ["#3a9ad9", "#e8743b", "#19b88a", "#d68fb8", "#e69f00", "#56b4e9", "#f0e442", "#b9c0cc"],
};
// Paths around 0, 0 of about the same area; as many as have no common factor with the number of colours.
const SHAPES = [
  "M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0Z",
  "M-.89-.89H.89V.89H-.89Z",
  "M0-1.3 1.2.75H-1.2Z",
  "M0-1.28 1.28 0 0 1.28-1.28 0Z",
  "M1.15 0 .57 1H-.57L-1.15 0-.57-1H.57Z",
];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const TOKENS = ["ink", "soft", "faint", "line", "surface", "raised", "accent", "danger", "heat-0", "heat-1", "heat-2", "heat-3"];

/** The colours of the page as it is now, light or dark. */
export function palette() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const found = {};
  for (const token of TOKENS) {
    probe.style.color = `var(--${token})`;
    found[token] = getComputedStyle(probe).color;
  }
  probe.remove();
  found.dark = channels(found.surface).reduce((sum, channel) => sum + channel, 0) < 3 * 128;
  found.font = getComputedStyle(document.body).fontFamily;
  return found;
}

/** How each region and each edge is drawn, by its name. order: all regions, the one with the first colour first. */
export function styles(state, order, dark) {
  const regions = new Map();
  const edges = new Map();
  for (const [name, { region }] of state) {
    if (!regions.has(region)) regions.set(region, styled(order.indexOf(region), region, dark));
    const style = regions.get(region);
    edges.set(name, { ...style, dash: DASHES[style.edges % DASHES.length] });
    style.edges += 1;
  }
  return { regions, edges };
}

function styled(number, region, dark) {
  const colours = COLOURS[dark ? "dark" : "light"];
  return { region, colour: colours[number % colours.length], shape: SHAPES[number % SHAPES.length], edges: 0 };
}

const made = new Map();

/** Draw the shape of an edge; one that is not alive is hollow and crossed out. */
export function mark(ctx, x, y, size, style, colours, alive = true) {
  if (!made.has(style.shape)) made.set(style.shape, new Path2D(style.shape));
  ctx.save();
  ctx.translate(x, y);
  ctx.scale(size, size);
  ctx.lineWidth = Math.min(1.6 / size, 0.4);
  ctx.fillStyle = alive ? style.colour : colours.surface;
  ctx.strokeStyle = alive ? colours.surface : style.colour;
  ctx.fill(made.get(style.shape));
  ctx.stroke(made.get(style.shape));
  if (!alive) {
    ctx.beginPath();
    ctx.moveTo(-1.35, -1.35);
    ctx.lineTo(1.35, 1.35);
    ctx.moveTo(1.35, -1.35);
    ctx.lineTo(-1.35, 1.35);
    ctx.stroke();
  }
  ctx.restore();
}

/** The same shape as a picture in the text; its style may be set later. */
export function symbol(style = null) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  picture.setAttribute("viewBox", "-1.5 -1.5 3 3");
  picture.setAttribute("class", "symbol");
  picture.setAttribute("aria-hidden", "true");
  picture.append(path);
  if (style) restyle(picture, style);
  return picture;
}

/** Give a picture in the text another shape and colour. */
export function restyle(picture, { shape, colour }) {
  const path = picture.firstChild;
  if (path.getAttribute("d") !== shape) path.setAttribute("d", shape);
  if (path.getAttribute("fill") !== colour) path.setAttribute("fill", colour);
}

/** A mix of colours given as "rgb(...)": 0 is the first of them, 1 the last. */
export function blend(stops, value) {
  const at = Math.min(Math.max(value, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((channel, i) => Math.round(channel + (stops[low + 1][i] - channel) * (at - low)));
}

export const channels = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
