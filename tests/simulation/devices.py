"""Small simulations that together go everywhere in the simulator, to look at where their tensors are made."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final
from unittest import mock

from alphaedge import Conditions, Greedy, Learned, MethodSettings
from alphaedge.attacks.catalog import ATTACKS
from alphaedge.core.home import Home
from alphaedge.core.methods import METHODS, alphaedge, alphaedge_paper, fedweight, nops
from alphaedge.models.mlp import mlp

from .fleets import Seen, measured, normalised, seen, shop, shop_data, shop_model, shortened

_SHOP: Final = shortened(shop_data(edges=4), 5 * 13)
_MEASURED: Final = measured(4, 13)
_FEW: Final = MethodSettings(peers=2, aggregate_every=4, weight_steps=2, weight_batches=2)
_ROUGH: Final = Conditions(delay=1, staleness=1, drop=0.3, joins={2: 0.2}, leaves={0: 0.8}, label_noise=0.1)
_MIXED: Final[dict[str, Any]] = {"publish": "mixed", "aggregate_every": 4, "statistics": "mixed"}
# Mixed models that are of no use from the start, so that they start anew from the home models.
_LOST: Final = alphaedge(aggregate_every=4, home=Home(reset_after=1, start=0.0, prior=1e12))

_IDS: Final[dict[str, Any]] = {"data": _SHOP, "model": shop_model(shop(edges=4)), "method": _FEW, "batch_size": 5}
_NUMBERS: Final = _IDS | {"data": _MEASURED, "model": partial(mlp, _MEASURED.fields, loss="mse", normalise=True)}
_NORMALISED: Final = _IDS | {"data": _MEASURED, "model": normalised}

SIMULATIONS: Final[dict[str, dict[str, Any]]] = {
    **{f"{name} with ids": _IDS | {"methods": [name]} for name in METHODS},
    **{f"{name} without ids": _NUMBERS | {"methods": [name]} for name in METHODS},
    "recorded": _IDS | {"methods": ["alphaedge"]},
    "rough": _IDS | {"methods": ["alphaedge", "fedweight"], "conditions": _ROUGH},
    "rough, lock-step": _IDS | {"methods": ["alphaedge"], "conditions": _ROUGH, "clock": "batch-index"},
    "rough, one at a time": _IDS | {"methods": ["alphaedge"], "conditions": _ROUGH, "executor": "one-at-a-time"},
    "without ids, one at a time": _NORMALISED | {"methods": ["nops"], "executor": "one-at-a-time"},
    "dense rows": _IDS | {"methods": ["alphaedge"], "id_rows": "dense", "local_steps": 2},
    "Adagrad rows": _IDS | {"methods": ["alphaedge"], "id_rows": "adagrad", "initial": "different"},
    "mixed publications": _NORMALISED
    | {"methods": {"nops": nops(**_MIXED, aggregation=Learned(steps=2, weight_batches=2))}, "conditions": _ROUGH},
    "mixed publications with ids": _IDS | {"methods": {"fedweight": fedweight(**_MIXED)}, "conditions": _ROUGH},
    "pulled ahead": _IDS
    | {"methods": {"paper": replace(alphaedge_paper(), selection=Greedy(peers=1), aggregate_every=5, pull_ahead=2)}},
    "lost mixed models": _IDS | {"methods": {"lost": _LOST}},
    "several seeds": {"store": shop(), "methods": ["alphaedge"], "seeds": 2, "batch_size": 30, "method": _FEW},
    **{
        f"hostile: {name}": _IDS | {"methods": ["alphaedge"], "conditions": Conditions(adversaries=0.5, attack=name)}
        for name in ATTACKS
    },
}


def run(name: str, **changes: Any) -> Seen:
    """Run one of the simulations; calls are recorded in one of them alone, since recording takes seconds."""
    with ExitStack() as patches:
        if name != "recorded":
            patches.enter_context(mock.patch("alphaedge.core.replays.CALLS_BEFORE_TRACING", 10**9))
        patches.enter_context(mock.patch("alphaedge.simulation.task._recordings_folder", return_value=None))
        return seen(**SIMULATIONS[name], **changes)
