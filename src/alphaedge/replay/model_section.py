"""The model's section of an edge's configuration that fits a data set. Pure."""

from typing import Any, Final

import tomli_w

from alphaedge.data.stream import Dataset

MLP_HIDDEN: Final = (64, 32)  # as the simulator's; a DeepFM has what edges have by default


def model_section(data: Dataset, *, name: str = "model", batch_size: int = 50, rate: float | None = None) -> str:
    """The ``[model]`` of an edge's configuration, as TOML. Rows of ids learn by the edges' own rule, Adagrad.

    rate: of Adam; None is what edges have by default.
    """
    deepfm = data.task == "classify" or any(f.kind == "id" for f in data.fields)
    model: dict[str, Any] = {"name": name, "builtin": "deepfm" if deepfm else "mlp", "task": data.task}
    if not deepfm:
        model["hidden"] = MLP_HIDDEN
    if data.task == "regress":
        model["label_scale"] = data.label_scale
    model["batch_size"] = batch_size
    if rate is not None:
        model["rate"] = rate
    parts = [f"# Fits {data.name}: put it in the place of [model] and its fields.\n" + tomli_w.dumps({"model": model})]
    # Fields as tables of their own: that is how the file that ``alphaedge edge init`` writes has them.
    parts += [
        f"[[model.fields]]\n{tomli_w.dumps({'name': f.name, 'kind': f.kind, 'size': f.size})}" for f in data.fields
    ]
    return "\n".join(parts)
