// Who is in trouble: edges that need a person, each with the reason in words.

import { formatCount } from "./format.js";
import { edgeState, isUnhealthy } from "./health.js";
import { rovingFocus } from "./roving.js";

const MIN_WITNESSES = 2; // edges that have excluded a peer for harm: one alone may err, or just differ
const MIN_WITNESS_SHARE = 2 / 3; // of those that know its model: half of a fleet may differ from the other half
const MEMORY_SECONDS = 3600; // an exclusion lasts for some rounds only, and what led to it may go on
const REASONS = {
  down: "does not answer",
  alone: "none of its neighbours is up",
  stale: "gets no models from its neighbours",
  "other schema": "its model is built differently, so it can’t mix",
};

/** Return the edges in trouble: {name, reasons}. fleet: a Map of edges by name. events: all. time: the displayed one. Pure. */
export function findTrouble(fleet, events, time) {
  const witnesses = new Map(); // who has excluded a peer for harm, by peer
  for (const { kind, edge, peer, reason, time: at } of events) {
    if (kind !== "peer_excluded" || !reason.startsWith("worse") || at > time || at < time - MEMORY_SECONDS) continue;
    if (!witnesses.has(peer)) witnesses.set(peer, new Set());
    witnesses.get(peer).add(edge);
  }
  const about = new Map(); // what others say, by peer
  for (const { alive, vitals } of fleet.values()) {
    if (!alive) continue;
    for (const link of vitals.links) {
      if (!about.has(link.peer)) about.set(link.peer, { known: 0, refused: 0 });
      const said = about.get(link.peer);
      said.known += 1;
      said.refused += link.refused;
    }
  }
  const found = [];
  for (const [name, edge] of fleet) {
    const reasons = [];
    const state = edgeState(edge, fleet);
    if (isUnhealthy(state)) reasons.push(REASONS[state]);
    const { known, refused } = about.get(name) ?? { known: 0, refused: 0 };
    const harmed = witnesses.get(name)?.size ?? 0;
    if (harmed >= MIN_WITNESSES && harmed >= MIN_WITNESS_SHARE * known) {
      reasons.push(`did harm: ${harmed} of ${Math.max(known, harmed)} edges that know its model excluded it`);
    }
    if (refused) reasons.push(`${formatCount(refused)} of its models ${refused === 1 ? "was" : "were"} refused`);
    if (reasons.length) found.push({ name, reasons });
  }
  return found;
}

/** The panel with the edges in trouble. select(name): called when the user picks one. */
export function troublePanel(list, select) {
  let drawnKey = "";
  rovingFocus(list);
  return {
    draw({ state, history, time }) {
      const found = findTrouble(state, history, time);
      const key = JSON.stringify(found);
      if (key === drawnKey) return;
      drawnKey = key;
      document.getElementById("trouble-panel").classList.toggle("waiting", !found.length);
      list.replaceChildren(...found.map((one) => makeEntry(one, select)));
    },
  };
}

function makeEntry({ name, reasons }, select) {
  const item = document.createElement("li");
  const button = Object.assign(document.createElement("button"), { type: "button", className: "pick", textContent: name });
  button.addEventListener("click", () => select(name));
  item.append(button, Object.assign(document.createElement("span"), { textContent: reasons.join("; ") }));
  return item;
}
