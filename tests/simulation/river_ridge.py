"""An online ridge regression of river, for comparison where river is installed."""

import numpy as np
from river import compose, linear_model, preprocessing

from alphaedge.core.fields import WHOLE
from alphaedge.data.stream import Dataset
from benchmarks.tables import score_of


def river_score(data: Dataset, size: int) -> float:
    """The mean score over edges; a batch is predicted before it is learned from, example by example."""
    whole = [f.name for f in data.fields if f.kind in WHOLE]
    scores = []
    for stream in data.streams:
        numbers = preprocessing.StandardScaler()
        if whole:
            others = compose.Select(*whole) | preprocessing.OneHotEncoder()
            inputs = (compose.Select(*(f.name for f in data.fields if f.name not in whole)) | numbers) + others
        else:
            inputs = numbers
        model = inputs | linear_model.BayesianLinearRegression()
        columns = {
            f.name: [str(v) for v in stream.inputs[f.name].tolist()] if f.name in whole else stream.inputs[f.name][:, 0]
            for f in data.fields
        }
        found = []
        for n in range(0, len(stream) - size + 1, size):
            rows = [{c: v[i] if c in whole else float(v[i]) for c, v in columns.items()} for i in range(n, n + size)]
            found += [float(model.predict_one(row) or 0) for row in rows]
            for row, label in zip(rows, stream.labels[n : n + size].tolist(), strict=True):
                model.learn_one(row, label)
        scores.append(score_of(np.nan_to_num(np.array(found)), stream.labels, size))
    return float(np.mean(scores))
