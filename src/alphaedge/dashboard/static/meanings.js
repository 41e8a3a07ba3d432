// What the words on the page mean, in one place. Where `alphaedge status` has a word for the same, it is that one.

export const EDGES = {
  State:
    "ok; waiting: it has not learned a batch yet; alone: none of those that it learns from is there; stale: of each of " +
    "them it lacks more than three publications; other schema: its model is built otherwise, so it cannot mix with this " +
    "fleet; down: it does not answer.",
  Score: "Mean over all batches of how good its predictions were, each made before it learned from that batch.",
  Lately: "The same over the last batches only.",
  Batches: "Batches of outcomes that it has learned from.",
  Mixes: "How often it has mixed its model with those of its peers and put the result into use.",
  Requests: "Predictions that it was asked for.",
  p50: "Half of its predictions lately took no longer than this.",
  p99: "All but the slowest in a hundred of its predictions lately took no longer than this.",
  Pending: "Predictions whose outcome is not known yet.",
  "Own share": "The share of its own model in its last mix; the rest came from its peers.",
  "Own twin": "The share in its predictions of its twin, a model of its own that never mixes. It is no part of the mix.",
};

export const LINKS = {
  "learns from": "The peer whose model it mixes into its own.",
  Link: "active; faded: its share of the last mix is under 2%, so it has no say; former: it no longer learns from this peer.",
  Share: "The share of the peer’s model in the edge’s last mix.",
  "Last pull": "When it last got that model.",
  Behind: "How many models the peer has published since the one that the edge holds.",
  Pulled: "All that came over this link so far.",
  Failures: "Pulls that failed.",
  Refused: "Models of the peer that it did not believe, and left out of its mix.",
};

export const TWIN = "The column apart: the share in an edge’s predictions of its own twin, a model that never mixes.";

/** Fill a list (dl) with words and what they mean. */
export function explain(list, meanings) {
  const made = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  for (const [word, meaning] of Object.entries(meanings)) {
    const pair = document.createElement("div");
    pair.append(made("dt", word), made("dd", meaning));
    list.append(pair);
  }
}
