"""``Stacked(compiled=True)``: slow to start, so a long test; needs a C++ compiler."""

import shutil

import pytest
import torch

from alphaedge.core.fields import Field
from alphaedge.core.gradients import CALLS_BEFORE_TRACING, OneAtATime, Stacked
from alphaedge.models.mlp import mlp


@pytest.mark.long
@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_call_gives_the_plain_loops_numbers() -> None:
    model = mlp([Field("x", "number", 6)], hidden=(8,))
    compiled, loop = Stacked(model, compiled=True), OneAtATime(model)
    dense = torch.randn(3, model.dense_size)
    for _ in range(CALLS_BEFORE_TRACING + 2):
        inputs, labels = [torch.randn(3, 5, 6)], torch.randn(3, 5)
        found = compiled.gradient(dense, [], {}, inputs, labels)
    expected = loop.gradient(dense, [], {}, inputs, labels)
    torch.testing.assert_close(found.dense, expected.dense, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.outputs, expected.outputs, rtol=1e-4, atol=1e-5)
