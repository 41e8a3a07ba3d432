// The text on the page: sums over the fleet, regions, the selection, and notes where there is nothing to draw.

import { formatBytes, formatCount, formatShort } from "./format.js";
import { HOME_NOTE } from "./glossary.js";
import { describeEdge } from "./graph.js";
import { makeSymbol } from "./palette.js";
import { sumUp } from "./state.js";
import { selectedLinks } from "./tables.js";

const $ = (id) => document.getElementById(id);
const write = (id, text) => {
  if ($(id).textContent !== text) $(id).textContent = text; // a screen reader reads only changes
};

/** Draw the sums in the header. */
export function drawTotals({ state, edge }) {
  const sum = sumUp(state);
  write("seen-from", edge ? `seen from ${edge}` : "");
  write("total-alive", formatCount(sum.alive));
  write("total-edges", `of ${formatCount(sum.edges)}`);
  write("total-batches", formatShort(sum.batches));
  write("total-mixes", formatShort(sum.aggregations));
  write("total-refused", formatShort(sum.refused));
  write("total-excluded", formatShort(sum.excluded));
  write("total-bytes", formatBytes(sum.bytes));
  $("total-refused").classList.toggle("bad", sum.refused > 0);
  $("total-excluded").classList.toggle("bad", sum.excluded > 0);
  $("total-alive").classList.toggle("bad", sum.alive < sum.edges);
}

/** The list of regions with their symbols and numbers of edges; redrawn only when it has changed. */
export function legend() {
  let drawnKey = "";
  return {
    draw({ styles, colours }) {
      const key = [...styles.regions.values()].map((s) => `${s.region} ${s.edges}`).join() + colours.dark;
      if (key === drawnKey) return;
      drawnKey = key;
      $("regions").replaceChildren(
        ...[...styles.regions.values()].map((style) => {
          const item = document.createElement("li");
          const count = Object.assign(document.createElement("span"), { className: "quiet", textContent: formatCount(style.edges) });
          item.append(makeSymbol(style), style.region, " ", count);
          return item;
        }),
      );
    },
  };
}

/** The drop-down list of edges. */
export function edgePicker(select) {
  let drawnKey = "";
  $("edge").addEventListener("change", () => select($("edge").value || null));
  $("clear").addEventListener("click", () => select(null));
  return {
    draw({ state, selected }) {
      const key = [...state].map(([name, edge]) => `${edge.region}/${name}`).join();
      if (key !== drawnKey) {
        drawnKey = key;
        const groups = new Map();
        for (const [name, { region }] of state) {
          if (!groups.has(region)) groups.set(region, Object.assign(document.createElement("optgroup"), { label: region }));
          groups.get(region).append(new Option(name, name));
        }
        $("edge").replaceChildren(new Option("All edges", ""), ...groups.values());
      }
      $("edge").value = selected ?? "";
      $("clear").hidden = selected === null;
    },
  };
}

/** Draw headings, and mark the panels that have nothing to show yet. */
export function drawNotes(view) {
  const { state, curves, latency, events, changes, links, selected, focus } = view;
  const shown = selectedLinks(view);
  const empty = (id, missing) => {
    const panel = $(id);
    if (panel.classList.contains("waiting") !== missing) panel.classList.toggle("waiting", missing);
  };
  empty("worth-panel", ![...state.values()].some(({ vitals }) => vitals.gain !== null));
  empty("graph-panel", state.size === 0);
  empty("matrix-panel", state.size === 0);
  empty("scores-panel", curves.size === 0);
  empty("latency-panel", !latency.p50.length && !latency.p99.length);
  empty("events-panel", events.length === 0);
  empty("edges-panel", state.size === 0);
  empty("links-panel", shown.length === 0);
  write("latency-edge", focus ? ` of ${focus}` : "");
  const arrows = selected ? `Solid: ${selected} learns from these. Dashed: these learn from ${selected}` : "";
  write("graph-note", arrows || "An arrow points where a model goes; its width is the share");
  $("home-note").hidden = ![...state.values()].some((edge) => edge.vitals.home_share > 0);
  write("home-note", HOME_NOTE);
  write("latency-mixes", `(${formatCount(latency.mixes.length)})`);
  write("events-count", selected ? `${formatCount(events.length)} of ${selected}` : formatCount(events.length));
  write("changes", `${formatCount(changes)} changes of peers`);
  write("links-count", selected ? `${formatCount(shown.length)} of ${formatCount(links.length)}, those of ${selected}` : formatCount(links.length));
  write("edges-count", formatCount(state.size));
}

/** Describe the selected edge to screen readers. */
export function announceSelection(view) {
  const { selected, state } = view;
  write("spoken", selected && state.has(selected) ? describeEdge(selected, view).join(", ") : "");
}
