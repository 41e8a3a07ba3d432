"""Imports torchvision, for frameworks that import it for their image data sets."""

import importlib

from torch import library


def import_torchvision() -> None:
    """Import torchvision, which may have been compiled for another torch.

    PyPI's torchvision is compiled for PyPI's torch. Beside a torch without CUDA its compiled part does not load, and
    its import fails because two operators are missing. Nothing here calls them, so a declaration is enough.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")
