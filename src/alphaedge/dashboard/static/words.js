// What the page says in words: sums over the fleet, the regions, who is selected, and where there is nothing yet.

import { described } from "./graph.js";
import { brief, bytes, whole } from "./format.js";
import { TWIN } from "./meanings.js";
import { symbol } from "./palette.js";
import { totals } from "./state.js";
import { ofSelected } from "./tables.js";

const $ = (id) => document.getElementById(id);
const write = (id, text) => {
  if ($(id).textContent !== text) $(id).textContent = text; // a screen reader hears only what is new
};

/** The sums in the header. */
export function drawTotals({ state, edge }) {
  const sum = totals(state);
  write("teller", edge ? `seen from ${edge}` : "");
  write("total-alive", whole(sum.alive));
  write("total-edges", `of ${whole(sum.edges)}`);
  write("total-batches", brief(sum.batches));
  write("total-mixes", brief(sum.aggregations));
  write("total-refused", brief(sum.refused));
  write("total-bytes", bytes(sum.bytes));
  $("total-refused").classList.toggle("bad", sum.refused > 0);
  $("total-alive").classList.toggle("bad", sum.alive < sum.edges);
}

/** Regions with their shapes and how many edges each has; again only when they have changed. */
export function legend() {
  let showing = "";
  return {
    draw({ styles, colours }) {
      const key = [...styles.regions.values()].map((s) => `${s.region} ${s.edges}`).join() + colours.dark;
      if (key === showing) return;
      showing = key;
      $("regions").replaceChildren(
        ...[...styles.regions.values()].map((style) => {
          const item = document.createElement("li");
          const count = Object.assign(document.createElement("span"), { className: "quiet", textContent: whole(style.edges) });
          item.append(symbol(style), style.region, " ", count);
          return item;
        }),
      );
    },
  };
}

/** The list to pick an edge from. */
export function picker(select) {
  let showing = "";
  $("edge").addEventListener("change", () => select($("edge").value || null));
  $("clear").addEventListener("click", () => select(null));
  return {
    draw({ state, selected }) {
      const key = [...state].map(([name, seen]) => `${seen.region}/${name}`).join();
      if (key !== showing) {
        showing = key;
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

/** Where there is nothing to draw, why; and headings that say what is drawn. */
export function drawNotes(now) {
  const { state, curves, latency, events, links, selected, focus } = now;
  const shown = ofSelected(now);
  const empty = (id, missing) => {
    const panel = $(id);
    if (panel.classList.contains("waiting") !== missing) panel.classList.toggle("waiting", missing);
  };
  empty("graph-panel", state.size === 0);
  empty("matrix-panel", state.size === 0);
  empty("scores-panel", curves.size === 0);
  empty("latency-panel", !latency.p50.length && !latency.p99.length);
  empty("events-panel", events.length === 0);
  empty("edges-panel", state.size === 0);
  empty("links-panel", shown.length === 0);
  write("latency-edge", focus ? ` of ${focus}` : "");
  const arrows = selected ? `Solid: what ${selected} learns from. Dashed: what learns from it` : "";
  write("graph-note", arrows || "An arrow goes where a model goes; its width is the share");
  $("twin").hidden = ![...state.values()].some((seen) => seen.vitals.home_share > 0);
  write("twin", TWIN);
  write("latency-mixes", `(${whole(latency.mixes.length)})`);
  write("events-count", selected ? `${whole(events.length)} of ${selected}` : whole(events.length));
  write("links-count", selected ? `${whole(shown.length)} of ${whole(links.length)}, those of ${selected}` : whole(links.length));
  write("edges-count", whole(state.size));
}

/** Say who is selected, for those who do not see it. */
export function announce(now) {
  write("spoken", now.selected && now.state.has(now.selected) ? described(now.selected, now).join(", ") : "");
}
