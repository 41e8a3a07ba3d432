"""The model of ``benchmarks.serving`` as a custom runtime of MLServer, which imports this file in its own environment.

It is the same class that AlphaEdge serves, called directly: whole tables, ids as row numbers, no journal.
"""

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch
from mlserver import MLModel  # type: ignore[import-not-found]
from mlserver.codecs import NumpyCodec  # type: ignore[import-not-found]
from mlserver.types import InferenceRequest, InferenceResponse  # type: ignore[import-not-found]

SOURCE = Path(__file__).parents[1] / "src" / "alphaedge"


def _module(name: str) -> Any:
    """Import a module of alphaedge without its ``__init__``, whose dependencies this environment does not have."""
    if "alphaedge" not in sys.modules:
        package = types.ModuleType("alphaedge")
        package.__path__ = [str(SOURCE)]
        sys.modules["alphaedge"] = package
    return importlib.import_module(name)


class DeepFM(MLModel):  # type: ignore[misc]
    """Predicts with a DeepFM. The ``uri`` in its settings is a folder with its fields and parameters."""

    async def load(self) -> bool:
        """Load the model; called by MLServer."""
        torch.set_num_threads(1)
        folder = Path(self.settings.parameters.uri)
        about = json.loads((folder / "model.json").read_text())
        fields = [_module("alphaedge.core.fields").Field(**f) for f in about["fields"]]
        self._names = [f.name for f in fields]
        self._network = _module("alphaedge.models.deepfm").DeepFM(fields, hidden=about["hidden"], normalise=True)
        self._network.load_state_dict(torch.load(folder / "model.pt"))
        self._network.eval()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Predict one request; called by MLServer."""
        given = {one.name: torch.from_numpy(NumpyCodec.decode_input(one)) for one in payload.inputs}
        with torch.inference_mode():
            # MLServer's codec and batching make single columns [B, 1].
            inputs = [given[n] if n == self._names[-1] else given[n].reshape(-1) for n in self._names]
            predictions = torch.sigmoid(self._network(*inputs))
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[NumpyCodec.encode_output("prediction", predictions.numpy())],
        )
