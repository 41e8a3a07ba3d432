// How an edge is doing, in one word: the same words, by the same rules, as `alphaedge status` (health.py). Pure.

const STALE = 3; // publications of a peer that an edge may lack
const SICK = new Set(["alone", "stale", "other schema", "down"]);

/** The word for an edge in a fleet, a Map of edges by name. */
export function condition(seen, fleet) {
  if (!seen.alive) return "down";
  if (!seen.mixes) return "other schema";
  const { batches, neighbours, links } = seen.vitals;
  if (!batches) return "waiting";
  const there = neighbours.filter((peer) => fleet.get(peer)?.alive);
  if (neighbours.length && !there.length) return "alone";
  const behind = links.filter((link) => there.includes(link.peer)).map((link) => link.behind);
  return behind.length && Math.min(...behind) > STALE ? "stale" : "ok";
}

/** Whether somebody should have a look. */
export const sick = (word) => SICK.has(word);
