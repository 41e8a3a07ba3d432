"""Devices: where the tensors of a fleet are. Every tensor is made on the device of the models that it is for."""

from contextlib import AbstractContextManager

import torch

from alphaedge.errors import InvalidValue


def available_devices() -> list[str]:
    """The devices that torch finds on this machine: the CPU, and its accelerators with and without a number."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None or found.type == "mps":  # which has no float64
        return ["cpu"]
    return ["cpu", found.type, *(f"{found.type}:{i}" for i in range(torch.accelerator.device_count()))]


def check_device(field: str, name: str) -> None:
    """Refuse a device that torch does not know or does not find here."""
    known = available_devices()
    if name not in known:
        found = "torch finds no other device on this machine" if len(known) == 1 else "what torch finds here"
        raise InvalidValue(field, name, f"{', '.join(known)} ({found})")


def fork_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Leave torch's generators, of the CPU and of the device, as they were when the block ends."""
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng(devices=[device], device_type=device.type)
