// The page: receives frames, keeps the user's choices, and draws.

import { scoreChart } from "./curves.js";
import { eventList } from "./events.js";
import { EDGE_COLUMNS, explain, LINK_COLUMNS } from "./glossary.js";
import { graph } from "./graph.js";
import { heatmap } from "./heatmap.js";
import { latencyChart } from "./latency.js";
import { readPalette } from "./palette.js";
import { addFrame, emptyHistory, loadFleet } from "./state.js";
import { follow } from "./stream.js";
import { edgeTable, linkTable } from "./tables.js";
import { announceSelection, drawNotes, drawTotals, edgePicker, legend } from "./text.js";
import { themeSwitch } from "./theme.js";
import { timeline } from "./time.js";
import { askForToken } from "./token.js";
import { troublePanel } from "./trouble.js";
import { makeView } from "./view.js";
import { worthPanel } from "./worth.js";

const STATUS = { connecting: "Connecting", live: "Connected", lost: "Connection lost, reconnecting" };
const $ = (id) => document.getElementById(id);

let known = emptyHistory();
let clockOffset = 0; // seconds by which the clock of the edge is ahead of this one
let colours = readPalette();
let pendingRedraw = null;
const chosen = { time: null, edge: null, metric: "recent", span: Infinity, churn: false };
const measured = { lastUpdateMs: 0, lastApplyMs: 0, firstDrawMs: 0, updates: 0, status: "connecting" };

const select = (name) => {
  chosen.edge = name === chosen.edge ? null : name;
  draw();
};
const showTime = (time) => {
  const frame = time === null ? null : known.frames.find((one) => one.time >= time);
  chosen.time = !frame || frame === known.frames.at(-1) ? null : frame.time;
  draw();
};
const links = linkTable($("links"), $("links-more"), select);
const parts = [
  timeline($("time"), $("when"), $("live"), showTime),
  worthPanel(),
  troublePanel($("trouble"), select),
  { draw: drawTotals },
  { draw: drawNotes }, // first, since hidden panels have no size to draw in
  graph($("graph"), select, () => chosen.edge),
  heatmap($("matrix"), select),
  scoreChart($("scores"), select, showTime),
  latencyChart($("latency")),
  eventList($("events"), showTime),
  edgeTable($("edges"), $("edges-more"), select),
  links,
  legend(),
  edgePicker(select),
  { draw: announceSelection },
];

let drawnView = null;
const currentView = () => makeView(known, chosen, colours, Date.now() / 1000 + clockOffset);

function redraw() {
  pendingRedraw = null;
  const began = performance.now();
  const view = (drawnView = currentView());
  if (chosen.edge !== null && !view.latest.has(chosen.edge)) view.selected = chosen.edge = null;
  for (const part of parts) part.draw(view);
  void document.body.offsetHeight; // include the layout in the measured time
  measured.lastUpdateMs = measured.lastApplyMs + performance.now() - began;
  measured.lastApplyMs = 0;
  measured.updates += 1;
  if (!measured.firstDrawMs && known.frames.length) measured.firstDrawMs = performance.now();
}

/** Redraw with the next animation frame, once for all changes until then. */
function draw() {
  pendingRedraw ??= requestAnimationFrame(redraw);
}

function apply(change) {
  const began = performance.now();
  change();
  measured.lastApplyMs += performance.now() - began;
  draw();
}

function recolour() {
  colours = readPalette();
  draw();
}

function showStatus(status) {
  measured.status = status;
  $("status").dataset.status = status;
  $("status").textContent = STATUS[status];
}

for (const key of ["recent", "score", "gain"]) {
  $(`metric-${key}`).addEventListener("change", () => {
    chosen.metric = key;
    draw();
  });
}
$("span").addEventListener("change", () => {
  chosen.span = Number($("span").value) || Infinity;
  draw();
});
$("churn").addEventListener("change", () => {
  chosen.churn = $("churn").checked;
  draw();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen.edge !== null && !$("token").open) select(null);
});
themeSwitch($("theme"), recolour);
explain($("edges-glossary"), EDGE_COLUMNS);
explain($("links-glossary"), LINK_COLUMNS);
new ResizeObserver(draw).observe(document.querySelector("main"));
matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener("change", draw);
setInterval(() => {
  // Ages grow even if nothing else changes.
  if (chosen.time === null && known.frames.length && !document.hidden) links.draw(currentView());
}, 1000);

// For tests and benchmarks.
const getter = (get) => ({ enumerable: true, get });
window.alphaedge = Object.freeze(
  Object.defineProperties(
    {},
    {
      ...Object.fromEntries(Object.keys(measured).map((key) => [key, getter(() => measured[key])])),
      frames: getter(() => known.frames.length),
      edges: getter(() => drawnView?.state.size ?? 0),
      links: getter(() => drawnView?.links.length ?? 0),
      events: getter(() => known.eventCount),
      time: getter(() => drawnView?.time ?? 0),
      live: getter(() => chosen.time === null),
      selected: getter(() => chosen.edge),
    },
  ),
);

draw();
follow({
  fleet: (fleet) => {
    clockOffset = fleet.now - Date.now() / 1000;
    apply(() => {
      known = loadFleet(known, fleet);
    });
  },
  frame: (text) => apply(() => addFrame(known, JSON.parse(text))),
  status: showStatus,
  token: (refused) => askForToken($("token"), refused),
});
