"""The ``[model]`` section of an edge's configuration, for a data set. Pure."""

from typing import Any, Final

import tomli_w

from alphaedge.core.fields import KEYED, Field
from alphaedge.data.stream import Dataset
from alphaedge.fleet_state import Description

MLP_HIDDEN: Final = (64, 32)  # as in the simulator; a DeepFM has the default of edges


def model_section(
    data: Dataset | Description, *, name: str = "model", batch_size: int = 50, rate: float | None = None
) -> str:
    """Return the ``[model]`` section that fits a data set, as TOML. Rows of ids learn by Adagrad, the edges' default.

    rate: the learning rate of Adam; None: the default of edges.
    """
    deepfm = data.task == "classify" or any(f.kind in KEYED for f in data.fields)
    model: dict[str, Any] = {"name": name, "builtin": "deepfm" if deepfm else "mlp", "task": data.task}
    if not deepfm:
        model["hidden"] = MLP_HIDDEN
    if data.task == "regress":
        model["label_scale"] = data.label_scale
    model["batch_size"] = batch_size
    if rate is not None:
        model["rate"] = rate
    parts = [f"# Fits {data.name}: replace [model] and its fields by this.\n" + tomli_w.dumps({"model": model})]
    # Each field is a table of its own, as in the file that ``alphaedge edge init`` writes.
    parts += [f"[[model.fields]]\n{tomli_w.dumps(_field(f))}" for f in data.fields]
    return "\n".join(parts)


def _field(field: Field) -> dict[str, Any]:
    plain = {"name": field.name, "kind": field.kind, "size": field.size}
    return plain | ({"missing": True} if field.missing else {})
