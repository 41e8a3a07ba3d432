"""The ``[model]`` section of an edge's configuration, for a data set. Pure."""

from typing import Any, Final

import tomli_w

from alphaedge.core.fields import KEYED, Field
from alphaedge.data.stream import Dataset
from alphaedge.fleet_state import Description

MLP_HIDDEN: Final = (64, 32)  # as in the simulator; others have the default of edges


def model_section(
    data: Dataset | Description,
    *,
    name: str = "model",
    batch_size: int = 50,
    rate: float | None = None,
    builtin: str | None = None,
) -> str:
    """Return the ``[model]`` section that fits a data set, as TOML. Rows of ids learn by Adagrad, the edges' default.

    rate: the learning rate of Adam; None: the default of edges. builtin: the built-in model; None: what the simulator's
    data sets have, a DeepFM to classify or where there are ids, else an MLP.
    """
    deepfm = data.task == "classify" or any(f.kind in KEYED for f in data.fields)
    chosen = builtin or ("deepfm" if deepfm else "mlp")
    model: dict[str, Any] = {"name": name, "builtin": chosen, "task": data.task}
    if data.classes is not None:
        model["classes"] = data.classes
    if chosen == "mlp":
        model["hidden"] = MLP_HIDDEN
    if chosen == "table" and data.last is not None:
        model |= {"last": data.last, "relative": data.relative}
    elif chosen != "table" and data.task == "regress":
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
