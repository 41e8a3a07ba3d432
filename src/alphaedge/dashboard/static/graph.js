// Who learns from whom: edges on a circle, those of a region side by side; arrows go where a model goes.

import { begin, fitted, font, note, pointer } from "./canvas.js";
import { ago, score, share } from "./format.js";
import { condition } from "./health.js";
import { mark } from "./palette.js";

const LEVEL = 12; // up to so many edges their names can be written as usual
const NAMED = 40; // ... and up to so many if they run outwards
const HEADED = 400; // ... and up to so many arrows for their heads
const NEAR = 14; // pixels

/** select(name | null): called when the user picks an edge. selected(): who is, though it may not be drawn yet. */
export function graph(canvas, select, selected) {
  const tip = note(canvas);
  let shown = null;
  let nodes = new Map();

  const nearest = ({ x, y }) => {
    let found = null;
    let least = NEAR;
    for (const [name, node] of nodes) {
      const distance = Math.hypot(node.x - x, node.y - y);
      if (distance < least) [found, least] = [name, distance];
    }
    return found;
  };
  pointer(
    canvas,
    (at) => {
      const name = at && nearest(at);
      canvas.classList.toggle("hit", Boolean(name));
      if (name) tip.show(at, described(name, shown));
      else tip.hide();
    },
    (at) => select(nearest(at)),
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
    draw(now) {
      shown = now;
      const { ctx, width, height } = begin(canvas);
      const circle = around(ctx, now, width, height);
      nodes = placed(now, circle);
      const related = relatives(now);
      drawArrows(ctx, now, nodes, circle);
      if (now.state.size > NAMED) drawRegions(ctx, now, nodes, circle);
      drawNodes(ctx, now, nodes, circle, related);
    },
  };
}

/** What the note says of an edge. */
export function described(name, { state, links, asOf }) {
  const seen = state.get(name);
  const { recent, links: own } = seen.vitals;
  const takes = links.filter((link) => link.edge === name && link.standing !== "former");
  const given = links.filter((link) => link.peer === name && link.standing !== "former");
  const last = Math.max(0, ...own.map((link) => link.pulled));
  return [
    `${name} · ${seen.region} · ${condition(seen, state)}`,
    `score lately ${score(recent)}, own share ${share(seen.vitals.own_share)}`,
    `learns from ${takes.length}; ${given.length} ${given.length === 1 ? "learns" : "learn"} from it`,
    ...(last ? [`last pull ${ago(asOf - last)}`] : []),
  ];
}

/** Names of the selected edge and of those that it has to do with. */
function relatives({ links, selected }) {
  const found = new Set([selected]);
  for (const { edge, peer, standing } of links) {
    if (standing === "former") continue;
    if (edge === selected) found.add(peer);
    if (peer === selected) found.add(edge);
  }
  return found;
}

function around(ctx, { state, colours }, width, height) {
  const level = state.size <= LEVEL;
  ctx.font = font(colours, 12, 500);
  const widest = Math.max(0, ...[...state.keys()].map((name) => ctx.measureText(name).width));
  const region = state.size <= NAMED ? 24 : 0;
  const outwards = Math.min(widest + region + 20, 96, 0.2 * width);
  const beside = level ? Math.min(widest + 22, width * 0.24) : outwards;
  const above = level ? 52 : outwards;
  const radius = Math.max(20, Math.min(width / 2 - beside, height / 2 - above));
  const size = Math.min(8.5, Math.max(2.4, (radius * 2 * Math.PI * 0.3) / Math.max(1, state.size)));
  return { x: width / 2, y: height / 2, radius, size, level, named: state.size <= NAMED, outside: outwards - size - 8 };
}

function placed({ state }, circle) {
  const regions = new Set([...state.values()].map((seen) => seen.region));
  const gap = regions.size > 1 ? Math.min(0.14, 1.2 / regions.size) : 0;
  const each = (2 * Math.PI - gap * regions.size) / Math.max(1, state.size);
  const nodes = new Map();
  let angle = -Math.PI / 2;
  let region = null;
  for (const [name, seen] of state) {
    if (region !== null && region !== seen.region) angle += gap;
    region = seen.region;
    nodes.set(name, { angle, x: circle.x + circle.radius * Math.cos(angle), y: circle.y + circle.radius * Math.sin(angle) });
    angle += each;
  }
  return nodes;
}

function drawArrows(ctx, { links, state, styles, selected }, nodes, circle) {
  const drawn = links.filter((link) => link.standing !== "former" && nodes.has(link.peer));
  const most = Math.max(0.05, ...drawn.map((link) => link.share));
  const widest = drawn.length > HEADED ? 3.5 : 7;
  drawn.sort((a, b) => rank(a) - rank(b) || a.share - b.share);
  for (const link of drawn) {
    const picked = rank(link) === 1;
    const strength = Math.min(1, link.share / most);
    let alpha = 0.16 + 0.64 * strength;
    if (drawn.length > HEADED) alpha *= 0.5;
    if (selected) alpha = picked ? Math.max(0.7, alpha) : 0.06;
    if (!state.get(link.edge).alive) alpha *= 0.4;
    ctx.globalAlpha = alpha;
    ctx.strokeStyle = ctx.fillStyle = styles.edges.get(link.peer).colour;
    ctx.lineWidth = 0.7 + widest * link.share ** 0.8;
    ctx.setLineDash(link.standing === "faded" ? [1.5, 3.5] : selected && link.peer === selected ? [7, 4] : []);
    arrow(ctx, nodes.get(link.peer), nodes.get(link.edge), circle, drawn.length <= HEADED || picked);
  }
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);

  function rank(link) {
    return selected && (link.edge === selected || link.peer === selected) ? 1 : 0;
  }
}

/** A curve that leans to the middle, and to one side: there and back are two curves. */
function arrow(ctx, from, to, circle, headed) {
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
  if (!headed) return;
  ctx.beginPath();
  ctx.moveTo(tip.x, tip.y);
  ctx.lineTo(tip.x - ux * head - uy * head * 0.5, tip.y - uy * head + ux * head * 0.5);
  ctx.lineTo(tip.x - ux * head + uy * head * 0.5, tip.y - uy * head - ux * head * 0.5);
  ctx.fill();
}

/** An arc beside the edges of each region, with its name unless names of edges need the room. */
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
    label(ctx, region, circle, radius + 8, (from + to) / 2);
  }
}

function label(ctx, text, circle, radius, angle, second = "", colours = null) {
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
    const { alive, mixes, region } = state.get(name);
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
    mark(ctx, node.x, node.y, size, styles.edges.get(name), colours, alive);
    ctx.fillStyle = alive ? colours.ink : colours.soft;
    if (circle.level) {
      ctx.font = font(colours, 12, name === selected ? 700 : 500);
      const about = alive ? (mixes ? region : `${region} · other schema`) : `${region} · down`;
      const apart = name === selected ? 16 : 10;
      label(ctx, name, circle, circle.radius + circle.size + apart, node.angle, about, colours);
    } else if (circle.named || (selected && related.has(name))) {
      const text = circle.named ? `${name} · ${region}` : name;
      radially(ctx, text, circle, node, font(colours, 10.5, name === selected ? 700 : 500));
    }
  }
  ctx.globalAlpha = 1;
}

/** Text that runs outwards, where many stand side by side. */
function radially(ctx, text, circle, node, style) {
  const left = Math.cos(node.angle) < 0;
  ctx.save();
  ctx.translate(node.x, node.y);
  ctx.rotate(left ? node.angle + Math.PI : node.angle);
  ctx.textAlign = left ? "right" : "left";
  ctx.font = style;
  ctx.fillText(fitted(ctx, text, circle.outside), (left ? -1 : 1) * (circle.size + (circle.named ? 9 : 13)), 0);
  ctx.restore();
}
