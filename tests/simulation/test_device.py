"""Every tensor of a simulation is made on the device of its models."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from alphaedge import InvalidValue, Model, Settings, simulate

from .devices import SIMULATIONS, run
from .fleets import measured

ROOT = Path(__file__).parents[2]
# These take over data that exist, and the CPU is where data enter.
_TAKE_OVER = {torch.from_numpy, torch.frombuffer}
_FACTORIES = _device_constructors() - _TAKE_OVER


class NoBareFactories(TorchFunctionMode):
    """Refuses ``torch.zeros`` and all other functions that make a tensor, unless they are told on which device.

    refused: what it has refused, also where somebody has caught the error.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in _FACTORIES and kwargs.get("device") is None:
            self.refused.append(function.__name__)
            raise AssertionError(f"{function.__name__} without a device")
        return function(*args, **kwargs)


@pytest.mark.parametrize("name", SIMULATIONS)
def test_no_tensor_is_made_without_saying_on_which_device(name: str) -> None:
    with NoBareFactories() as factories:
        run(name)
    assert not factories.refused


def run_elsewhere(*names: str) -> None:
    """Run simulations on the CPU and on the emulated device, and compare them."""
    command = [sys.executable, "-m", "tests.simulation.emulated_device", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_simulation_on_another_device_predicts_the_same() -> None:
    run_elsewhere("rough, lock-step", "mixed publications with ids")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_simulation_on_another_device_predicts_the_same() -> None:
    run_elsewhere(*SIMULATIONS)


class _Bare(nn.Module):
    """Makes a tensor wherever torch makes them by default."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + torch.zeros(1)
        return out


@pytest.mark.parametrize("executor", ["stacked", "one-at-a-time"])
def test_a_bare_factory_call_is_noticed(executor: Any) -> None:
    """Or else the test above would prove nothing."""
    data = measured(2, 4)
    with NoBareFactories(), pytest.raises(AssertionError, match="zeros without a device"):
        simulate(
            data=data,
            model=lambda: Model(_Bare(), fields=["x"], loss="mse"),
            methods=["noagg"],
            batch_size=5,
            executor=executor,
        )


@pytest.mark.parametrize("name", ["warp", "cuda:banana", "", "meta", "cpu:7"])
def test_an_unknown_device_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"device: found '{name}'; allowed: cpu"):
        Settings(device=name)


def test_a_device_that_torch_does_not_find_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    with pytest.raises(InvalidValue, match=r"device: found 'cuda'; allowed: cpu \(torch finds no other device"):
        Settings(device="cuda")


def test_a_device_that_torch_finds_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert [Settings(device=name).device for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]
    with pytest.raises(InvalidValue, match=r"device: found 'cuda:2'; allowed: cpu, cuda, cuda:0, cuda:1"):
        Settings(device="cuda:2")
