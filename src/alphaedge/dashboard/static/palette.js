// Colours and shapes. A region has both, so that neither is the only sign, and its name stands beside them.

// Okabe and Ito's palette, which colour-blind readers can tell apart, with grey instead of black. Pale colours are darker
// on white, and the dark one is lighter on black, so that thin lines stay visible.
const COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b8589a", "#c98a00", "#2f95cf", "#8a7d00", "#57606e"],
  dark: ["#3a9ad9", "#e8743b", "#19b88a", "#d68fb8", "#e69f00", "#56b4e9", "#f0e442", "#b9c0cc"],
};
// Paths around 0, 0 of about the same area. Their number has no common factor with that of the colours.
const SHAPES = [
  "M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0Z",
  "M-.89-.89H.89V.89H-.89Z",
  "M0-1.3 1.2.75H-1.2Z",
  "M0-1.28 1.28 0 0 1.28-1.28 0Z",
  "M1.15 0 .57 1H-.57L-1.15 0-.57-1H.57Z",
];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const TOKENS = ["ink", "soft", "faint", "line", "surface", "raised", "accent", "danger", "heat-0", "heat-1", "heat-2", "heat-3"];

/** Read the page's current colours, light or dark. */
export function readPalette() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const palette = {};
  for (const token of TOKENS) {
    probe.style.color = `var(--${token})`;
    palette[token] = getComputedStyle(probe).color;
  }
  probe.remove();
  palette.dark = parseColour(palette.surface).reduce((sum, channel) => sum + channel, 0) < 3 * 128;
  palette.font = getComputedStyle(document.body).fontFamily;
  return palette;
}

/** Return the style of each region and each edge by name. order: all regions, in the order of their colours. */
export function makeStyles(state, order, dark) {
  const regions = new Map();
  const edges = new Map();
  for (const [name, { region }] of state) {
    if (!regions.has(region)) regions.set(region, regionStyle(order.indexOf(region), region, dark));
    const style = regions.get(region);
    edges.set(name, { ...style, dash: DASHES[style.edges % DASHES.length] });
    style.edges += 1;
  }
  return { regions, edges };
}

function regionStyle(number, region, dark) {
  const colours = COLOURS[dark ? "dark" : "light"];
  return { region, colour: colours[number % colours.length], shape: SHAPES[number % SHAPES.length], edges: 0 };
}

const paths = new Map();

/** Draw the shape of an edge, hollow and crossed out if it is down. */
export function drawMark(ctx, x, y, size, style, colours, alive = true) {
  if (!paths.has(style.shape)) paths.set(style.shape, new Path2D(style.shape));
  ctx.save();
  ctx.translate(x, y);
  ctx.scale(size, size);
  ctx.lineWidth = Math.min(1.6 / size, 0.4);
  ctx.fillStyle = alive ? style.colour : colours.surface;
  ctx.strokeStyle = alive ? colours.surface : style.colour;
  ctx.fill(paths.get(style.shape));
  ctx.stroke(paths.get(style.shape));
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

/** Make the same shape as an SVG for use in text; its style may be set later. */
export function makeSymbol(style = null) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  picture.setAttribute("viewBox", "-1.5 -1.5 3 3");
  picture.setAttribute("class", "symbol");
  picture.setAttribute("aria-hidden", "true");
  picture.append(path);
  if (style) styleSymbol(picture, style);
  return picture;
}

/** Set the shape and colour of a symbol. */
export function styleSymbol(picture, { shape, colour }) {
  const path = picture.firstChild;
  if (path.getAttribute("d") !== shape) path.setAttribute("d", shape);
  if (path.getAttribute("fill") !== colour) path.setAttribute("fill", colour);
}

/** Interpolate between colours [r, g, b]: 0 is the first of them, 1 the last. */
export function blend(stops, value) {
  const at = Math.min(Math.max(value, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((channel, i) => Math.round(channel + (stops[low + 1][i] - channel) * (at - low)));
}

/** Return [r, g, b] of a colour such as "rgb(...)". */
export const parseColour = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
