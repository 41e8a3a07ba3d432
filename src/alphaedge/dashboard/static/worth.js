// What learning from peers is worth: the gain over learning alone, of the fleet and per region.

import { formatGain, formatShort } from "./format.js";
import { makeSymbol } from "./palette.js";

const $ = (id) => document.getElementById(id);

/** Return the gains of a fleet, a Map of edges by name: the median edge, how many are above 0, and each region. Pure. */
export function gains(state) {
  const known = [...state.values()].filter(({ vitals }) => vitals.gain !== null);
  const sorted = known.map(({ vitals }) => vitals.gain).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  const regions = new Map();
  for (const { region, vitals } of state.values()) {
    if (!regions.has(region)) regions.set(region, { region, place: "", edges: 0, batches: 0, weight: 0, sum: 0 });
    const one = regions.get(region);
    one.edges += 1;
    one.place = one.edges === 1 ? vitals.place : ""; // a region of one edge is called what its data call it
    one.batches += vitals.batches;
    if (vitals.gain === null) continue;
    one.weight += vitals.batches; // an edge counts in its region as much as it has predicted
    one.sum += vitals.batches * vitals.gain;
  }
  return {
    median: sorted.length ? median : null,
    compared: sorted.length,
    better: sorted.filter((gain) => gain > 0).length,
    regions: [...regions.values()].map(({ weight, sum, ...one }) => ({ ...one, gain: weight ? sum / weight : null })),
  };
}

/** The panel with the gains. */
export function worthPanel() {
  let drawnKey = "";
  return {
    draw({ state, styles, colours }) {
      const { median, compared, better, regions } = gains(state);
      const key = JSON.stringify([median, compared, better, regions, colours.dark]);
      if (key === drawnKey) return;
      drawnKey = key;
      $("worth-median").textContent = formatGain(median);
      $("worth-median").classList.toggle("bad", median !== null && median < 0);
      $("worth-better").textContent = compared
        ? `${better} of ${compared} ${compared === 1 ? "edge predicts" : "edges predict"} better than alone`
        : "";
      const widest = Math.max(1e-9, ...regions.map(({ gain }) => Math.abs(gain ?? 0)));
      const left = Math.max(0, ...regions.map(({ gain }) => -(gain ?? 0))) / widest; // how far bars go below 0
      const span = left + Math.max(0, ...regions.map(({ gain }) => gain ?? 0)) / widest;
      const scale = { zero: span ? left / span : 0, unit: span ? 1 / (span * widest) : 0 };
      $("worth-regions").replaceChildren(...regions.map((one) => makeRow(one, scale, styles.regions.get(one.region))));
    },
  };
}

function makeRow({ region, place, edges, batches, gain }, { zero, unit }, style) {
  const part = (name, text) => Object.assign(document.createElement("span"), { className: name, textContent: text });
  const row = document.createElement("li");
  const label = part("region", place || region);
  if (style) label.prepend(makeSymbol(style));
  const bar = part("bar", "");
  const fill = document.createElement("i");
  const width = Math.abs(gain ?? 0) * unit;
  fill.style.setProperty("left", `${100 * (gain < 0 ? zero - width : zero)}%`);
  fill.style.setProperty("width", `${100 * width}%`);
  bar.style.setProperty("--zero", `${100 * zero}%`);
  bar.append(fill);
  const many = edges > 1 ? `${edges} edges, ` : "";
  row.append(label, bar, part("gain", formatGain(gain)), part("quiet", `${many}${formatShort(batches)} batches`));
  row.classList.toggle("worse", gain < 0);
  return row;
}
