// The shares of all mixes as a matrix: an edge in each row learns from the columns; the diagonal is its own share.

import { fitText, font, prepare, tooltip, trackPointer } from "./canvas.js";
import { formatShare } from "./format.js";
import { EDGE_COLUMNS } from "./glossary.js";
import { blend, drawMark, parseColour } from "./palette.js";
import { isExcluded } from "./state.js";

const MIN_NAMED_CELL = 11; // pixels; in smaller cells only regions are named
const MIN_NUMBERED_CELL = 30; // pixels; smaller cells have no number
const HOME_MODEL = "home model"; // a separate column: part of the predictions, not of the mix
const HOME_GAP = 22; // pixels between the mix and that column

/** select(name | null): called when the user picks a row. */
export function heatmap(canvas, select) {
  const tip = tooltip(canvas);
  let view = null;
  let grid = null;

  const cellAt = ({ x, y }) => {
    const row = Math.floor((y - grid.top) / grid.cell);
    const column = x >= grid.home ? grid.names.length : Math.floor((x - grid.left) / grid.cell);
    const between = x >= grid.end && x < grid.home;
    const inside = x >= grid.left && x < grid.right && !between && row >= 0 && row < grid.names.length;
    return inside ? { row: grid.names[row], column: grid.names[column] } : null;
  };
  trackPointer(
    canvas,
    (at) => {
      const cell = at && grid && cellAt(at);
      canvas.classList.toggle("hit", Boolean(cell));
      if (cell) tip.show(at, describeCell(cell, view));
      else tip.hide();
    },
    (at) => select((grid && cellAt(at)?.row) ?? null),
  );

  return {
    draw(next) {
      view = next;
      const { ctx, width, height } = prepare(canvas);
      grid = layOutGrid(ctx, view, width, height);
      drawCells(ctx, view, grid);
      if (grid.cell >= MIN_NAMED_CELL) drawNames(ctx, view, grid);
      else drawRegions(ctx, view, grid);
      drawSelected(ctx, view, grid);
    },
  };
}

function describeCell({ row, column }, { state }) {
  const { own_share, home_share, links } = state.get(row).vitals;
  if (column === undefined) return [`${row}: ${formatShare(home_share)} of a prediction comes from its home model`, EDGE_COLUMNS["Home share"]];
  if (column === row) return [`${row} keeps ${formatShare(own_share)} of its own model`];
  const link = links.find(({ peer }) => peer === column);
  return [`${row} learns ${formatShare(link?.share ?? 0)} from ${column}`, ...(link ? [link.state] : [])];
}

function layOutGrid(ctx, { state, colours }, width, height) {
  const names = [...state.keys()];
  const hasHome = [...state.values()].some((edge) => edge.vitals.home_share > 0);
  const columns = names.length + (hasHome ? 1 : 0);
  const between = hasHome ? HOME_GAP : 0;
  ctx.font = font(colours, 12, 700);
  const widest = Math.max(...names.map((name) => ctx.measureText(name).width), 30) + 24;
  const roomy = Math.min(width - 60 - between, height - 40) / columns >= MIN_NAMED_CELL;
  const left = roomy ? Math.min(widest, width * 0.26) : 46;
  const beside = hasHome && !roomy ? 28 : 2; // the name of the last column is wider than the column
  let cell = Math.min((width - left - between - beside) / columns, (height - 24) / names.length);
  const heading = Math.max(widest, hasHome ? ctx.measureText(HOME_MODEL).width + 24 : 0);
  const upright = roomy && cell < heading - 20; // names of columns don't fit side by side
  const top = roomy ? (upright ? Math.min(heading - 8, 90) : 22) : 22;
  cell = Math.min(cell, (height - top - 2) / names.length);
  const pixels = cell * window.devicePixelRatio;
  const fraction = Math.floor(pixels) / pixels; // cells of whole pixels are not blurred
  if (fraction > 0.85) cell *= fraction;
  const end = left + names.length * cell; // of the mix
  const home = end + between;
  return { names, left, top, cell, end, home, hasHome, upright, right: hasHome ? home + cell : end };
}

function drawCells(ctx, { state, colours }, grid) {
  const { names, left, top, cell, end, home, hasHome } = grid;
  const stops = [0, 1, 2, 3].map((i) => parseColour(colours[`heat-${i}`]));
  const index = new Map(names.map((name, i) => [name, i]));
  const gap = cell >= 20 ? 2 : cell >= 8 ? 1 : 0;
  const paint = (x, y, value, alive) => {
    // The square root, since shares that matter are small: 5% must be visible beside 60%.
    const [r, g, b] = blend(stops, Math.sqrt(value));
    ctx.fillStyle = `rgb(${r} ${g} ${b})`;
    ctx.globalAlpha = alive ? 1 : 0.3;
    if (gap > 1) fillRounded(ctx, x, y, cell - gap, cell - gap, 4);
    else ctx.fillRect(x, y, cell - gap, cell - gap);
    if (cell < MIN_NUMBERED_CELL) return;
    ctx.globalAlpha = 1;
    ctx.fillStyle = !alive ? colours.soft : 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#10141a" : "#fff";
    ctx.font = font(colours, Math.min(13, cell * 0.3), 500);
    ctx.textAlign = "center";
    if (value > 0) ctx.fillText(formatShare(value), x + (cell - gap) / 2, y + (cell - gap) / 2);
  };
  const crossOut = (x, y) => {
    ctx.fillStyle = colours.danger;
    ctx.font = font(colours, Math.min(18, cell * 0.6), 600);
    ctx.textAlign = "center";
    ctx.fillText("×", x + (cell - gap) / 2, y + (cell - gap) / 2);
  };
  ctx.fillStyle = colours["heat-0"];
  if (gap < 2) ctx.fillRect(left, top, names.length * cell, names.length * cell);
  names.forEach((name, row) => {
    const { alive, vitals } = state.get(name);
    const y = top + row * cell;
    if (gap > 1) names.forEach((_, column) => paint(left + column * cell, y, 0, alive));
    for (const { peer, share: value } of vitals.links) {
      if (value > 0 && index.has(peer)) paint(left + index.get(peer) * cell, y, value, alive);
    }
    for (const { peer } of vitals.links.filter(isExcluded)) {
      if (index.has(peer)) crossOut(left + index.get(peer) * cell, y);
    }
    paint(left + row * cell, y, vitals.own_share, alive);
    if (hasHome) paint(home, y, vitals.home_share, alive);
  });
  ctx.globalAlpha = 1;
  if (!hasHome) return;
  ctx.fillStyle = colours.faint;
  ctx.fillRect(Math.round((end - gap + home) / 2), top, 1, names.length * cell - gap);
}

function fillRounded(ctx, x, y, width, height, radius) {
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, radius);
  ctx.fill();
}

function drawNames(ctx, { state, styles, colours, selected }, { names, left, top, cell, home, hasHome, upright }) {
  const size = Math.max(8.5, Math.min(12, cell - 1));
  names.forEach((name, i) => {
    const { alive } = state.get(name);
    ctx.font = font(colours, size, name === selected ? 700 : 400);
    ctx.fillStyle = name === selected ? colours.ink : colours.soft;
    const middle = i * cell + (cell - 2) / 2;
    drawMark(ctx, left - 10, top + middle, Math.min(4, cell / 3.5), styles.edges.get(name), colours, alive);
    ctx.textAlign = "right";
    ctx.fillText(fitText(ctx, name, left - 22), left - 19, top + middle);
    drawColumnName(name, left + middle);
  });
  ctx.font = font(colours, size);
  ctx.fillStyle = colours.soft;
  if (hasHome) drawColumnName(HOME_MODEL, home + (cell - 2) / 2);

  function drawColumnName(name, x) {
    ctx.save();
    ctx.translate(x, top - 8);
    if (upright) ctx.rotate(-Math.PI / 2);
    ctx.textAlign = upright ? "left" : "center";
    ctx.fillText(upright ? fitText(ctx, name, top - 12) : name, 0, 0);
    ctx.restore();
  }
}

/** Draw the names of regions along both sides, with lines between regions, where names of edges have no room. */
function drawRegions(ctx, { state, styles, colours }, { names, left, top, cell, home, hasHome }) {
  const all = names.length * cell;
  let from = 0;
  names.forEach((name, i) => {
    const { region } = state.get(name);
    if (i + 1 < names.length && state.get(names[i + 1]).region === region) return;
    const [begin, end] = [from * cell, (i + 1) * cell];
    from = i + 1;
    ctx.fillStyle = styles.regions.get(region).colour;
    ctx.fillRect(left - 6, top + begin + 0.5, 3, end - begin - 1);
    ctx.fillRect(left + begin + 0.5, top - 6, end - begin - 1, 3);
    ctx.font = font(colours, 11, 500);
    ctx.fillStyle = colours.soft;
    ctx.textAlign = "right";
    ctx.fillText(fitText(ctx, region, left - 12), left - 11, top + (begin + end) / 2);
    ctx.textAlign = "center";
    ctx.fillText(fitText(ctx, region, end - begin), left + (begin + end) / 2, top - 14);
    if (i + 1 === names.length) return;
    ctx.fillStyle = colours.line;
    ctx.fillRect(left, top + end - 0.5, all, 1);
    ctx.fillRect(left + end - 0.5, top, 1, all);
  });
  ctx.fillStyle = colours.soft;
  ctx.textAlign = "center";
  if (hasHome) ctx.fillText(HOME_MODEL, home + cell / 2 + 4, top - 14);
}

function drawSelected(ctx, { colours, selected }, { names, left, top, cell, right }) {
  const at = names.indexOf(selected);
  if (at < 0) return;
  ctx.strokeStyle = colours.ink;
  ctx.lineWidth = 1.5;
  const gap = cell >= 20 ? 2 : 0;
  ctx.strokeRect(left - 1.5, top + at * cell - 1.5, right - left - gap + 3, cell - gap + 3);
  ctx.globalAlpha = 0.5;
  ctx.strokeRect(left + at * cell - 1.5, top - 1.5, cell - gap + 3, names.length * cell - gap + 3);
  ctx.globalAlpha = 1;
}
