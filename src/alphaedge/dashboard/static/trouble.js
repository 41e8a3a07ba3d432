// Who is in trouble: edges that need a person, each with the reason in words.

import { formatCount } from "./format.js";
import { edgeState, isUnhealthy } from "./health.js";
import { rovingFocus } from "./roving.js";
import { isExcluded } from "./state.js";

const MIN_WITNESSES = 2; // edges that exclude a peer, before it counts as in trouble: one alone may err, or just differ
const REASONS = {
  down: "does not answer",
  alone: "none of its neighbours is up",
  stale: "gets no models from its neighbours",
  "other schema": "its model is built differently, so it can’t mix",
};

/** Return the edges in trouble: {name, reasons}. fleet: a Map of edges by name. Pure. */
export function findTrouble(fleet) {
  const about = new Map(); // what others say, by peer
  for (const { alive, vitals } of fleet.values()) {
    if (!alive) continue;
    for (const link of vitals.links) {
      if (!about.has(link.peer)) about.set(link.peer, { known: 0, excluded: 0, refused: 0 });
      const said = about.get(link.peer);
      said.known += 1;
      said.excluded += isExcluded(link) ? 1 : 0;
      said.refused += link.refused;
    }
  }
  const found = [];
  for (const [name, edge] of fleet) {
    const reasons = [];
    const state = edgeState(edge, fleet);
    if (isUnhealthy(state)) reasons.push(REASONS[state]);
    const { known, excluded, refused } = about.get(name) ?? { known: 0, excluded: 0, refused: 0 };
    if (excluded >= MIN_WITNESSES && 2 * excluded >= known) {
      reasons.push(`excluded by ${excluded} of the ${known} edges that know its model`);
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
    draw({ state }) {
      const found = findTrouble(state);
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
