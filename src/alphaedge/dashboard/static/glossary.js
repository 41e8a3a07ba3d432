// The meaning of the columns on the page. Terms that `alphaedge status` has too mean the same there.

export const EDGE_COLUMNS = {
  State:
    "ok; starting: not found yet, moments after a start; waiting: has not learned a batch yet; alone: none of its neighbours is up; stale: no model of a " +
    "neighbour came in its last three rounds or more, although there were new ones; other schema: its model is built differently, so it can't mix with this fleet; " +
    "down: does not answer.",
  Score: "Mean score over all batches, each scored before it was learned from.",
  Recent: "Mean score over the last batches.",
  Gain:
    "By how much its score is above that of its home model alone, which predicts and learns the same events at the same " +
    "moments and is never mixed: what learning from peers is worth to this edge.",
  Batches: "Batches that it has learned from.",
  Mixes: "How often it has mixed its model with those of its neighbours.",
  Requests: "Predictions that it has served.",
  p50: "Half of its recent predictions took no longer than this.",
  p99: "99% of its recent predictions took no longer than this.",
  Pending: "Predictions that have no label yet.",
  "Own share": "Share of its own model in its last mix; the rest came from its neighbours.",
  "Home share": "Share of its home model in its predictions. The home model learns from the same batches and is never mixed.",
};

export const LINK_COLUMNS = {
  "learns from": "The peer whose model it mixes into its own.",
  State:
    "Of the peer, as the edge sees it. mixed; faded: its share in the last mix is under 2%; waiting: its model has not come " +
    "yet; former: the edge no longer pulls from it; excluded: its model takes no part for some rounds, because it is worse " +
    "than the edge’s own by so much, or does not come; other schema; down.",
  Share: "Share of the peer’s model in the edge’s last mix.",
  "Last pull": "When it last pulled the peer’s model.",
  Behind: "Models that the peer has published since the one that the edge holds.",
  Pulled: "Bytes pulled over this link so far.",
  Failures: "Pulls that failed.",
  Refused: "Models of the peer that it refused and left out of its mix.",
};

export const HOME_NOTE = "Separate column: the share of an edge’s home model, which is never mixed, in its predictions.";

/** Fill a list (dl) with terms and their meanings. */
export function explain(list, meanings) {
  const make = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  for (const [term, meaning] of Object.entries(meanings)) {
    const pair = document.createElement("div");
    pair.append(make("dt", term), make("dd", meaning));
    list.append(pair);
  }
}
