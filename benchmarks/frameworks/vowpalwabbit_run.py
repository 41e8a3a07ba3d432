"""Vowpal Wabbit: logistic loss and its default updates (adaptive, normalized, invariant), with crosses of fields.

Its own driver reads the events from text files and writes the predictions, which it makes before it learns from an
event. With a model for each edge there is one file and one driver for each. The crosses were chosen on the first 80,000
events of MovieLens, which are not part of the stream that is measured; other rates, low-rank crosses, a hidden layer,
FTRL and coin betting were not better there.
"""

import tempfile
from pathlib import Path

import numpy as np
import vowpalwabbit

from benchmarks.frameworks.stopwatch import Stopwatch
from benchmarks.frameworks.stream import Events, answer, arguments

OPTIONS = "--quiet --loss_function logistic --link logistic -b 20"


def lines(events: Events) -> list[str]:
    """Return the events in Vowpal Wabbit's text format, with one namespace for each field: a, b, ..."""
    found = []
    for label, fields in zip(events.labels.tolist(), events.features(), strict=True):
        parts = ["1" if label else "-1"]
        for place, features in enumerate(fields.values()):
            parts.append(f"|{chr(ord('a') + place)}")
            parts += [name if value == 1 else f"{name}:{value:.6g}" for name, value in features.items()]
        found.append(" ".join(parts))
    return found


def main() -> None:
    """Measure and answer."""
    events, mode, file = arguments()
    text, model_of = np.array(lines(events)), np.array(events.model_of(mode))
    names = list(events.fields)
    letters = [[chr(ord("a") + names.index(name)) for name in pair] for pair in events.crossed]
    options = " ".join([OPTIONS, *(f"-q {a}{b}" for a, b in letters)])
    predictions, watch = np.empty(len(text)), Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        data, output = Path(folder) / "events", Path(folder) / "predictions"
        for model in np.unique(model_of):
            data.write_text("\n".join(text[model_of == model]) + "\n")
            watch.start()
            vowpalwabbit.Workspace(f"{options} -d {data} -p {output}").finish()
            watch.stop()
            predictions[model_of == model] = np.loadtxt(output)
    answer(predictions, file, watch, cores=2)  # one thread reads, one learns


if __name__ == "__main__":
    main()
