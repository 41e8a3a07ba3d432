"""A second device for tests, on a machine that has none: its tensors keep their numbers on the CPU.

It is as strict as a GPU: an operation on tensors of both devices is refused, but for copies, numbers and indices. What
runs on it to the end never meets a tensor on the wrong device. How fast a real device is, and what its kernels lack or
round differently, it can't tell.

python -m tests.simulation.emulated_device NAME...    # run simulations on it, in a process that torch keeps it in
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from torch import Tensor, library
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from alphaedge import Field
from alphaedge.core.gradients import Stacked
from alphaedge.models.mlp import mlp
from alphaedge.simulation.recording_cache import recording_cache

from .devices import run

NAME: Final = "elsewhere"
aten = torch.ops.aten

# What takes tensors of two devices on a GPU, too.
_COPIES: Final = (aten._to_copy.default, aten.copy_.default, aten._copy_from.default)
_INDEXING: Final = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default)


class Elsewhere(Tensor):
    """A tensor on the emulated device. here: its numbers, on the CPU."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> "Elsewhere":
        with torch.inference_mode(here.is_inference()):  # a view of a normal tensor is one in inference mode, too
            made: Elsewhere = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls,
                here.size(),
                strides=here.stride(),
                storage_offset=here.storage_offset(),
                dtype=here.dtype,
                device=f"{NAME}:0",
            )
        made.here = here
        return made

    def __repr__(self, **_: Any) -> str:
        return f"Elsewhere({self.here!r})"

    def tolist(self) -> Any:
        """Torch has it for its own tensors alone."""
        return self.here.tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operation, *args, **kwargs or {})


def _run(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operation with a tensor that is on the emulated device."""
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    known = {id(x.here): x for x in tensors if isinstance(x, Elsewhere)}
    if operation not in _COPIES:
        strange = [x for x in tensors if not isinstance(x, Elsewhere) and x.dim()]
        if operation in _INDEXING:
            strange = [x for x in strange if x.dtype not in (torch.long, torch.bool)]
        if known and strange:
            raise RuntimeError(f"{operation}: expected all tensors to be on the same device")
    stays = torch.device(kwargs["device"]).type == NAME if kwargs.get("device") is not None else bool(known)
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("cpu")
    args, kwargs = tree_map_only(Elsewhere, lambda x: x.here, (args, kwargs))
    found = operation(*args, **kwargs)
    assert all(x.shape == x.here.shape for x in known.values()), f"{operation} resizes a tensor"
    if not stays:
        return found
    # What is written in place is returned as the tensor that it was.
    return tree_map_only(Tensor, lambda x: known[id(x)] if id(x) in known else Elsewhere(x), found)


def _made(function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """A new tensor on the emulated device."""
    return Elsewhere(function(*args, **kwargs | {"device": torch.device("cpu")}))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    there, here = (x.here if isinstance(x, Elsewhere) else x for x in (target, source))
    there.copy_(here)
    return target


class _Module(_DummyBackendModule):
    """What torch asks of a device, with the CPU's generator as its own."""

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)


def register() -> list[library.Library]:
    """Make the device known to torch, as long as what is returned is kept."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    kernels, others = library.Library("aten", "IMPL"), library.Library("_", "IMPL")
    arange = (aten.arange.default, aten.arange.start, aten.arange.start_step)
    for function in (aten.empty.memory_format, aten.empty_strided.default, *arange):
        kernels.impl(function.name(), partial(_made, function), "PrivateUse1")
    kernels.impl("_copy_from", _copy_from, "PrivateUse1")
    others.fallback(_run, "PrivateUse1")
    return [kernels, others]


def check(names: list[str]) -> None:
    """Run simulations here and there; the predictions must be the same to the bit."""
    for name in names:
        here, there = (run(name, device=device) for device in ("cpu", NAME))
        assert here.results.messages == there.results.messages, name
        for one, two in zip(here.worlds, there.worlds, strict=True):
            assert {one.device.type, two.device.type} == {"cpu", NAME}, name
            assert bool(one.log.done.any()), name
            assert torch.equal(one.log.predictions.nan_to_num(), two.log.predictions.nan_to_num()), name
            assert torch.equal(one.log.bytes, two.log.bytes), name
            if name == "recorded":
                assert isinstance(two.gradients, Stacked)
                replays = two.gradients._replays._replays
                assert all(isinstance(replay, torch.jit.ScriptFunction) for replay in replays.values())
                assert replays, name


def check_recordings() -> None:
    """A recorded call names its device, and is kept for each device apart."""
    model = mlp([Field("kind", "code", 3)], hidden=(4,))  # which makes a tensor in ``forward``
    with TemporaryDirectory() as folder:
        for device, files in (("cpu", 1), (NAME, 2), (NAME, 2)):
            dense = model.initial_dense().repeat(2, 1).to(device)
            kinds, labels = torch.tensor([[0, 1, 2]] * 2, device=device), torch.ones(2, 3, device=device)
            Stacked(model, recordings=recording_cache(Path(folder), model)).gradient(dense, [], {}, [kinds], labels)
            sources = [file.read_text(encoding="utf-8") for file in Path(folder).iterdir()]
            assert len(sources) == files, device
        assert sorted("torch.device('cpu')" in source for source in sources) == [False, True]
        assert sorted(f"torch.device('{NAME}:0')" in source for source in sources) == [False, True]


if __name__ == "__main__":
    kept = register()
    check_recordings()
    check(sys.argv[1:])
