"""river: logistic regression with AdaGrad over ids, categories and their crosses.

Chosen on the first 40,000 events of MovieLens, which are not part of the stream that is measured: AdaGrad was ahead of
SGD, Adam and FTRL, crosses helped, and factorization machines were not better and 20 times slower. Features are made in
advance, since dictionaries are what river takes.
"""

import numpy as np
from river import linear_model, optim

from benchmarks.frameworks import BATCH
from benchmarks.frameworks.stopwatch import Stopwatch
from benchmarks.frameworks.stream import Events, answer, arguments

RATE = 0.1


def features(events: Events) -> list[dict[str, float]]:
    """Return the features of each event, crosses included."""
    found = []
    for fields in events.features():
        one = {name: value for field in fields.values() for name, value in field.items()}
        for a, b in events.crossed:
            one |= {f"{x}*{y}": v * w for x, v in fields[a].items() for y, w in fields[b].items()}
        found.append(one)
    return found


def main() -> None:
    """Measure and answer."""
    events, mode, file = arguments()
    work = list(zip(features(events), events.labels.astype(bool).tolist(), events.model_of(mode), strict=True))
    models = [linear_model.LogisticRegression(optim.AdaGrad(RATE)) for _ in range(int(events.edges.max()) + 1)]
    waiting: list[list[tuple[dict[str, float], bool]]] = [[] for _ in models]
    size = BATCH if mode == "batches" else 1
    predictions = np.empty(len(work))
    watch = Stopwatch()
    watch.start()
    for place, (x, y, number) in enumerate(work):
        model = models[number]
        predictions[place] = model.predict_proba_one(x)[True]
        waiting[number].append((x, y))
        if len(waiting[number]) == size:
            for event in waiting[number]:
                model.learn_one(*event)
            waiting[number] = []
    watch.stop()
    answer(predictions, file, watch)


if __name__ == "__main__":
    main()
