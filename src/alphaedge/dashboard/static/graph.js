// The peer graph: edges on a circle, grouped by region; an arrow points where a model goes.

import { fitText, font, prepare, tooltip, trackPointer } from "./canvas.js";
import { formatAge, formatScore, formatShare } from "./format.js";
import { edgeState } from "./health.js";
import { drawMark } from "./palette.js";
import { FADED_SHARE } from "./state.js";

const MAX_HORIZONTAL_NAMES = 12; // with more edges, names run outwards
const MAX_NAMES = 40; // with more edges, only regions are named
const MAX_ARROW_HEADS = 400; // with more arrows, only those of the selected edge have heads
const MAX_DISTANCE = 14; // pixels from the pointer to an edge
const MAX_LINES = 3; // about excluded peers in a description

/** select(name | null): called when the user picks an edge. selected(): the current selection, drawn or not. */
export function graph(canvas, select, selected) {
  const tip = tooltip(canvas);
  let view = null;
  let nodes = new Map();

  const edgeAt = ({ x, y }) => {
    let nearest = null;
    let least = MAX_DISTANCE;
    for (const [name, node] of nodes) {
      const distance = Math.hypot(node.x - x, node.y - y);
      if (distance < least) [nearest, least] = [name, distance];
    }
    return nearest;
  };
  trackPointer(
    canvas,
    (at) => {
      const name = at && edgeAt(at);
      canvas.classList.toggle("hit", Boolean(name));
      if (name) tip.show(at, describeEdge(name, view));
      else tip.hide();
    },
    (at) => select(edgeAt(at)),
  );
  canvas.addEventListener("keydown", (event) => {
    const names = [...nodes.keys()];
    if (!names.length) return;
    const at = names.indexOf(selected());
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    select(names.at(at === -1 && next < 0 ? -1 : next % names.length));
  });

  return {
    draw(next) {
      view = next;
      const { ctx, width, height } = prepare(canvas);
      const circle = layOutCircle(ctx, view, width, height);
      nodes = placeNodes(view, circle);
      const related = relatedEdges(view);
      drawArrows(ctx, view, nodes, circle);
      if (view.state.size > MAX_NAMES) drawRegions(ctx, view, nodes, circle);
      drawNodes(ctx, view, nodes, circle, related);
    },
  };
}

/** Describe an edge in a few lines. */
export function describeEdge(name, { state, links, asOf }) {
  const edge = state.get(name);
  const { recent, links: own } = edge.vitals;
  const sources = links.filter((link) => link.edge === name && link.neighbour);
  const learners = links.filter((link) => link.peer === name && link.neighbour);
  const last = Math.max(0, ...own.map((link) => link.pulled));
  return [
    `${name} · ${edge.vitals.place || edge.region} · ${edgeState(edge, state)}`,
    `recent score ${formatScore(recent)}, own share ${formatShare(edge.vitals.own_share)}`,
    `learns from ${sources.length}; ${learners.length} ${learners.length === 1 ? "learns" : "learn"} from it`,
    ...(last ? [`last pull ${formatAge(asOf - last)}`] : []),
    ...shorten(links.filter((link) => link.edge === name && link.excluded).map(({ peer, state }) => `${peer} ${state}`)),
    ...shorten(links.filter((link) => link.peer === name && link.excluded).map(({ edge, state }) => `${edge} has it ${state}`)),
  ];
}

const shorten = (lines) =>
  lines.length > MAX_LINES ? [...lines.slice(0, MAX_LINES), `and ${lines.length - MAX_LINES} more excluded`] : lines;

/** Return the selected edge and all edges that it has a link with. */
function relatedEdges({ links, selected }) {
  const related = new Set([selected]);
  for (const { edge, peer, neighbour, excluded } of links) {
    if (!neighbour && !excluded) continue;
    if (edge === selected) related.add(peer);
    if (peer === selected) related.add(edge);
  }
  return related;
}

function layOutCircle(ctx, { state, colours }, width, height) {
  const horizontal = state.size <= MAX_HORIZONTAL_NAMES;
  ctx.font = font(colours, 12, 500);
  const widest = Math.max(0, ...[...state.keys()].map((name) => ctx.measureText(name).width));
  const region = state.size <= MAX_NAMES ? 24 : 0;
  const outwards = Math.min(widest + region + 20, 96, 0.2 * width);
  const beside = horizontal ? Math.min(widest + 22, width * 0.24) : outwards;
  const above = horizontal ? 52 : outwards;
  const radius = Math.max(20, Math.min(width / 2 - beside, height / 2 - above));
  const size = Math.min(8.5, Math.max(2.4, (radius * 2 * Math.PI * 0.3) / Math.max(1, state.size)));
  return { x: width / 2, y: height / 2, radius, size, horizontal, named: state.size <= MAX_NAMES, outside: outwards - size - 8 };
}

function placeNodes({ state }, circle) {
  const regions = new Set([...state.values()].map((edge) => edge.region));
  const gap = regions.size > 1 ? Math.min(0.14, 1.2 / regions.size) : 0;
  const each = (2 * Math.PI - gap * regions.size) / Math.max(1, state.size);
  const nodes = new Map();
  let angle = -Math.PI / 2;
  let region = null;
  for (const [name, edge] of state) {
    if (region !== null && region !== edge.region) angle += gap;
    region = edge.region;
    nodes.set(name, { angle, x: circle.x + circle.radius * Math.cos(angle), y: circle.y + circle.radius * Math.sin(angle) });
    angle += each;
  }
  return nodes;
}

function drawArrows(ctx, { links, state, styles, colours, selected }, nodes, circle) {
  const drawn = links.filter((link) => (link.neighbour || link.excluded) && nodes.has(link.peer));
  const largest = Math.max(0.05, ...drawn.map((link) => link.share));
  const widest = drawn.length > MAX_ARROW_HEADS ? 3.5 : 7;
  drawn.sort((a, b) => rank(a) - rank(b) || a.share - b.share);
  for (const link of drawn) {
    const picked = rank(link) === 1;
    const strength = Math.min(1, link.share / largest);
    let alpha = link.excluded ? 0.8 : 0.16 + 0.64 * strength;
    if (drawn.length > MAX_ARROW_HEADS) alpha *= 0.5;
    if (selected) alpha = picked ? Math.max(0.7, alpha) : 0.06;
    if (!state.get(link.edge).alive) alpha *= 0.4;
    ctx.globalAlpha = alpha;
    ctx.strokeStyle = ctx.fillStyle = link.excluded ? colours.danger : styles.edges.get(link.peer).colour;
    ctx.lineWidth = (link.excluded ? 1.3 : 0.7) + widest * link.share ** 0.8;
    const dash = link.excluded || link.share < FADED_SHARE ? [1.5, 3.5] : selected && link.peer === selected ? [7, 4] : [];
    ctx.setLineDash(dash);
    const headed = drawn.length <= MAX_ARROW_HEADS || picked;
    drawArrow(ctx, nodes.get(link.peer), nodes.get(link.edge), circle, { headed, crossed: link.excluded });
  }
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);

  function rank(link) {
    return selected && (link.edge === selected || link.peer === selected) ? 1 : 0;
  }
}

/** Draw a curve that bends to the centre and to one side, so that the way back is another curve. */
function drawArrow(ctx, from, to, circle, { headed, crossed }) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const bend = 0.1;
  const middle = {
    x: ((from.x + to.x) / 2) * 0.55 + circle.x * 0.45 - dy * bend,
    y: ((from.y + to.y) / 2) * 0.55 + circle.y * 0.45 + dx * bend,
  };
  const length = Math.hypot(to.x - middle.x, to.y - middle.y) || 1;
  const [ux, uy] = [(to.x - middle.x) / length, (to.y - middle.y) / length];
  const tip = { x: to.x - ux * (circle.size + 4), y: to.y - uy * (circle.size + 4) };
  const head = headed ? 4.5 + 1.3 * ctx.lineWidth : 0;
  ctx.beginPath();
  ctx.moveTo(from.x, from.y);
  ctx.quadraticCurveTo(middle.x, middle.y, tip.x - ux * head * 0.8, tip.y - uy * head * 0.8);
  ctx.stroke();
  if (crossed) drawCross(ctx, (from.x + 2 * middle.x + tip.x) / 4, (from.y + 2 * middle.y + tip.y) / 4);
  if (!headed) return;
  ctx.beginPath();
  ctx.moveTo(tip.x, tip.y);
  ctx.lineTo(tip.x - ux * head - uy * head * 0.5, tip.y - uy * head + ux * head * 0.5);
  ctx.lineTo(tip.x - ux * head + uy * head * 0.5, tip.y - uy * head - ux * head * 0.5);
  ctx.fill();
}

/** Cross an arrow out at its middle. */
function drawCross(ctx, x, y) {
  const arm = 4;
  ctx.setLineDash([]);
  ctx.lineWidth = 1.6;
  ctx.beginPath();
  ctx.moveTo(x - arm, y - arm);
  ctx.lineTo(x + arm, y + arm);
  ctx.moveTo(x + arm, y - arm);
  ctx.lineTo(x - arm, y + arm);
  ctx.stroke();
}

/** Draw an arc beside the edges of each region, with its name unless names of edges need the room. */
function drawRegions(ctx, { state, styles, colours, selected }, nodes, circle) {
  const ends = new Map();
  for (const [name, { angle }] of nodes) {
    const region = state.get(name).region;
    ends.set(region, { from: ends.get(region)?.from ?? angle, to: angle });
  }
  const radius = circle.radius + circle.size + 5;
  ctx.lineWidth = 2;
  for (const [region, { from, to }] of ends) {
    ctx.strokeStyle = styles.regions.get(region).colour;
    ctx.beginPath();
    ctx.arc(circle.x, circle.y, radius, from - 0.012, to + 0.012);
    ctx.stroke();
    if (selected) continue;
    ctx.font = font(colours, 12, 600);
    ctx.fillStyle = colours.ink;
    drawLabel(ctx, region, circle, radius + 8, (from + to) / 2);
  }
}

function drawLabel(ctx, text, circle, radius, angle, second = "", colours = null) {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const centred = Math.abs(cos) < 0.2;
  ctx.textAlign = centred ? "center" : cos > 0 ? "left" : "right";
  const x = circle.x + radius * cos;
  const y = circle.y + radius * sin + (centred ? 7 * Math.sign(sin) : 0);
  if (!second) {
    ctx.fillText(text, x, y);
    return;
  }
  ctx.fillText(text, x, centred && sin < 0 ? y - 13 : centred ? y : y - 7);
  ctx.font = font(colours, 10.5);
  ctx.fillStyle = colours.soft;
  ctx.fillText(second, x, centred && sin < 0 ? y : centred ? y + 13 : y + 7);
}

function drawNodes(ctx, { state, styles, colours, selected }, nodes, circle, related) {
  for (const [name, node] of nodes) {
    const { alive, same_schema, region } = state.get(name);
    const dim = selected && !related.has(name);
    ctx.globalAlpha = dim ? 0.35 : 1;
    if (name === selected) {
      ctx.beginPath();
      ctx.arc(node.x, node.y, Math.max(4.5, circle.size) * 1.3 + 4, 0, 2 * Math.PI);
      ctx.fillStyle = colours.surface;
      ctx.fill();
      ctx.lineWidth = 2;
      ctx.strokeStyle = colours.ink;
      ctx.stroke();
    }
    const size = name === selected ? Math.max(4.5, circle.size) : circle.size;
    drawMark(ctx, node.x, node.y, size, styles.edges.get(name), colours, alive);
    ctx.fillStyle = alive ? colours.ink : colours.soft;
    if (circle.horizontal) {
      ctx.font = font(colours, 12, name === selected ? 700 : 500);
      const about = alive ? (same_schema ? region : `${region} · other schema`) : `${region} · down`;
      const gap = name === selected ? 16 : 10;
      drawLabel(ctx, name, circle, circle.radius + circle.size + gap, node.angle, about, colours);
    } else if (circle.named || (selected && related.has(name))) {
      const text = circle.named ? `${name} · ${region}` : name;
      drawRadialText(ctx, text, circle, node, font(colours, 10.5, name === selected ? 700 : 500));
    }
  }
  ctx.globalAlpha = 1;
}

/** Draw text that runs outwards. */
function drawRadialText(ctx, text, circle, node, style) {
  const left = Math.cos(node.angle) < 0;
  ctx.save();
  ctx.translate(node.x, node.y);
  ctx.rotate(left ? node.angle + Math.PI : node.angle);
  ctx.textAlign = left ? "right" : "left";
  ctx.font = style;
  ctx.fillText(fitText(ctx, text, circle.outside), (left ? -1 : 1) * (circle.size + (circle.named ? 9 : 13)), 0);
  ctx.restore();
}
