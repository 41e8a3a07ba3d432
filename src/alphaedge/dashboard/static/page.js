// The page: takes what the connection tells, keeps what the user has chosen, and draws.

import { curves } from "./curves.js";
import { eventList } from "./events.js";
import { graph } from "./graph.js";
import { heatmap } from "./heatmap.js";
import { latency } from "./latency.js";
import { EDGES, explain, LINKS } from "./meanings.js";
import { palette } from "./palette.js";
import { append, begin, nothing } from "./state.js";
import { follow } from "./stream.js";
import { edgeTable, linkTable } from "./tables.js";
import { theme } from "./theme.js";
import { timeline } from "./time.js";
import { askForToken } from "./token.js";
import { shown } from "./view.js";
import { announce, drawNotes, drawTotals, legend, picker } from "./words.js";

const STATUS = { connecting: "Connecting", live: "Connected", lost: "Connection lost, trying again" };
const $ = (id) => document.getElementById(id);

let known = nothing();
let ahead = 0; // seconds by which the clock of the edge is ahead of the one here
let colours = palette();
let asked = null; // the frame that was asked for, to draw in
const chosen = { time: null, edge: null, metric: "recent", span: Infinity };
const measured = { lastUpdateMs: 0, lastApplyMs: 0, firstDrawMs: 0, updates: 0, status: "connecting" };

const select = (name) => {
  chosen.edge = name === chosen.edge ? null : name;
  draw();
};
const go = (time) => {
  // The first frame that has what happened then.
  const frame = time === null ? null : known.frames.find((one) => one.time >= time);
  chosen.time = !frame || frame === known.frames.at(-1) ? null : frame.time;
  draw();
};
const links = linkTable($("links"), $("links-more"), select);
const parts = [
  timeline($("time"), $("when"), $("live"), go),
  { draw: drawTotals },
  { draw: drawNotes }, // first, for what is hidden has no size to draw in
  graph($("graph"), select, () => chosen.edge),
  heatmap($("matrix"), select),
  curves($("scores"), select, go),
  latency($("latency")),
  eventList($("events"), go),
  edgeTable($("edges"), $("edges-more"), select),
  links,
  legend(),
  picker(select),
  { draw: announce },
];

let last = null; // what is on the screen
const view = () => shown(known, chosen, colours, Date.now() / 1000 + ahead);

function redraw() {
  asked = null;
  const began = performance.now();
  const now = (last = view());
  if (chosen.edge !== null && !now.latest.has(chosen.edge)) now.selected = chosen.edge = null;
  for (const part of parts) part.draw(now);
  void document.body.offsetHeight; // the layout is part of what it takes
  measured.lastUpdateMs = measured.lastApplyMs + performance.now() - began;
  measured.lastApplyMs = 0;
  measured.updates += 1;
  if (!measured.firstDrawMs && known.frames.length) measured.firstDrawMs = performance.now();
}

/** Draw soon, once for all that happens until then. */
function draw() {
  asked ??= requestAnimationFrame(redraw);
}

function apply(change) {
  const began = performance.now();
  change();
  measured.lastApplyMs += performance.now() - began;
  draw();
}

function recolour() {
  colours = palette();
  draw();
}

function status(now) {
  measured.status = now;
  $("status").dataset.status = now;
  $("status").textContent = STATUS[now];
}

for (const key of ["recent", "score"]) {
  $(`metric-${key}`).addEventListener("change", () => {
    chosen.metric = key;
    draw();
  });
}
$("span").addEventListener("change", () => {
  chosen.span = Number($("span").value) || Infinity;
  draw();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen.edge !== null && !$("token").open) select(null);
});
theme($("theme"), recolour);
explain($("edges-words"), EDGES);
explain($("links-words"), LINKS);
new ResizeObserver(draw).observe(document.querySelector("main"));
matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener("change", draw);
setInterval(() => {
  // Ages grow while nothing else happens.
  if (chosen.time === null && known.frames.length && !document.hidden) links.draw(view());
}, 1000);

const number = (value) => ({ enumerable: true, get: value });
window.alphaedge = Object.freeze(
  Object.defineProperties(
    {},
    {
      ...Object.fromEntries(Object.keys(measured).map((key) => [key, number(() => measured[key])])),
      frames: number(() => known.frames.length),
      edges: number(() => last?.state.size ?? 0),
      links: number(() => last?.links.length ?? 0),
      events: number(() => known.told),
      time: number(() => last?.time ?? 0),
      live: number(() => chosen.time === null),
      selected: number(() => chosen.edge),
    },
  ),
);

draw();
follow({
  fleet: (fleet) => {
    ahead = fleet.now - Date.now() / 1000;
    apply(() => {
      known = begin(known, fleet);
    });
  },
  frame: (text) => apply(() => append(known, JSON.parse(text))),
  status,
  token: (refused) => askForToken($("token"), refused),
});
