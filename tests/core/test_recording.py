"""A recording is the function it was made from, for any number of edges."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional as F

from alphaedge.core.recording import NotLinearError, record, script

Function = Callable[..., list[Tensor]]


def _stacked(one: Callable[..., Tensor]) -> Function:
    return lambda *flat: [vmap(one, randomness="different")(*flat)]


def _example(k: int, *shape: int) -> Tensor:
    return torch.randn(k, *(shape or (4, 5)), dtype=torch.float64)


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, (5,)) + x.mean(0) - x.var(0)


def _lookup(x: Tensor) -> Tensor:
    return F.embedding(torch.arange(4).flip(0), x) @ x.t()


def _gradient(x: Tensor) -> Tensor:
    return grad(lambda z: (torch.tanh(z @ z.t()).exp() * torch.arange(4)).sum())(x)


def _convolution(x: Tensor) -> Tensor:
    return F.conv1d(x[None], torch.ones_like(x)[:2, None, :3].expand(2, 4, 3) * x[:2, None, :3])[0]


def _does_nothing_much(x: Tensor) -> Tensor:
    return ((x * 1).view(4, 5).expand(4, 5)[:, :].detach() ** 1).permute(0, 1) + x.view(20).view(4, 5)


def _there_and_back(x: Tensor) -> Tensor:
    return (x.clone().t().t() + 0) * x.clone() - x.t().clone().t()


def _rows_named_twice(x: Tensor) -> Tensor:
    ids = torch.arange(6).view(2, 3) // 2
    return grad(lambda z: (F.embedding(ids, z) ** 2 * torch.arange(1, 4)[:, None]).sum())(x)


def _some_columns(x: Tensor) -> Tensor:
    return x[:, torch.arange(3) // 2]


def _the_same_twice(x: Tensor) -> Tensor:
    return torch.sin(x) * torch.sin(x) + (x + 1) * (x + 1)


PURE: dict[str, Callable[[Tensor], Tensor]] = {
    f.__name__.strip("_"): f
    for f in (
        _norm,
        _lookup,
        _gradient,
        _convolution,
        _does_nothing_much,
        _there_and_back,
        _rows_named_twice,
        _some_columns,
        _the_same_twice,
    )
}


@pytest.mark.parametrize("k", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("name", PURE)
def test_a_replay_for_any_number_of_edges_is_the_function(name: str, k: int) -> None:
    function = _stacked(PURE[name])
    replay = script(record(function, [_example(4)]))
    for _ in range(3):
        x = _example(k)
        torch.testing.assert_close(replay(x)[0], function(x)[0], rtol=1e-12, atol=1e-12)


def test_recording_from_one_edge_is_enough() -> None:
    function = _stacked(_gradient)
    x = _example(6)
    torch.testing.assert_close(script(record(function, [x[:1]]))(x)[0], function(x)[0], rtol=1e-12, atol=1e-12)


def test_recording_leaves_its_example_alone() -> None:
    x = _example(3)
    kept = x.clone()
    record(lambda t: [t.mul_(2)], [x])
    assert torch.equal(x, kept)


def test_the_same_work_is_recorded_once() -> None:
    calls = []

    def twice(x: Tensor) -> list[Tensor]:
        calls.append(1)
        return [torch.sin(x) + torch.sin(x)]

    replay = script(record(twice, [_example(2)]))
    recorded = len(calls)
    x = _example(2)
    torch.testing.assert_close(replay(x)[0], 2 * torch.sin(x))
    assert len(calls) == recorded, "a replay went through Python again"


def test_copies_that_nobody_writes_into_are_left_out() -> None:
    def moved(x: Tensor, mean: Tensor) -> list[Tensor]:
        state = mean.clone()
        away = x.sum(1) - state.unsqueeze(1)[:, 0]
        state.copy_(state + 0.1 * away)
        return [away, state]

    example = [_example(2), _example(2, 5)]
    source = record(moved, example)
    assert "clone" not in source
    assert "copy" not in source
    before = example[1].clone()
    torch.testing.assert_close(script(source)(*example), moved(*example))
    assert torch.equal(example[1], before)


@pytest.mark.parametrize("function", [lambda x: [x.clone()], lambda x: [x.clone().view(-1, 20)]])
def test_a_replay_never_returns_what_it_was_given(function: Function) -> None:
    x = _example(2)
    (found,) = script(record(function, [x]))(x)
    assert found.data_ptr() != x.data_ptr()


def test_random_numbers_are_drawn_anew_at_each_replay() -> None:
    function = _stacked(lambda x: F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(4, 5))
    replay = script(record(function, [_example(3)]))
    x = _example(3)
    draws = [replay(x)[0] for _ in range(4)]
    assert all(not torch.equal(draws[0], d) for d in draws[1:])
    assert not torch.equal(draws[0][0] - x[0], draws[0][1] - x[1])


def test_two_equal_draws_are_two_draws() -> None:
    function = _stacked(lambda x: torch.rand_like(x) - torch.rand_like(x))
    replay = script(record(function, [_example(3)]))
    assert (replay(_example(3))[0] != 0).all()


def test_a_product_with_one_that_changes_the_type_is_kept() -> None:
    for function in (
        lambda x: [(x > 0) * 1.0],
        lambda x: [(x > 0) * 1],
        lambda x: [(x > 0).long() * 1.0],
        lambda x: [1 - (x > 0) * 1.0],
        lambda x: [(x * 10).long() ** 1.0],
    ):
        x = _example(3)
        torch.testing.assert_close(script(record(function, [x]))(x)[0], function(x)[0])


def _writes_into_a_view(x: Tensor) -> list[Tensor]:
    a, b = x * 2, x * 2
    a[:, 0] += 1
    return [a, b]


def _writes_into_a_flat_view(x: Tensor) -> list[Tensor]:
    a, b = x.clone(), x.clone()
    a.view(-1).mul_(3)
    return [a + b]


def _collects_in_a_blank(x: Tensor) -> list[Tensor]:
    blank = torch.zeros_like(x)
    blank[:, 0] += x[:, 0]
    return [blank]


def _returns_a_filled_blank(x: Tensor) -> list[Tensor]:
    blank = torch.ones_like(x)
    blank[:, 0].copy_(x[:, 0])
    return [blank]


def _reads_around_a_write(x: Tensor) -> list[Tensor]:
    h = x + 1
    first = h[:, 0]
    before = first * 3
    h.mul_(2)
    return [before, first * 3, h]


def _writes_into_a_product_with_one(x: Tensor) -> list[Tensor]:
    y = x * 1.0
    y[:, 0].fill_(7)
    return [x + y]


def _writes_through_two_views(x: Tensor) -> list[Tensor]:
    h = x.exp()
    h.view(-1).view(x.shape)[:, 1].add_(1)
    return [h, x.exp()]


WRITING = [
    _writes_into_a_view,
    _writes_into_a_flat_view,
    _collects_in_a_blank,
    _returns_a_filled_blank,
    _reads_around_a_write,
    _writes_into_a_product_with_one,
    _writes_through_two_views,
]


@pytest.mark.parametrize("function", WRITING, ids=lambda f: f.__name__.strip("_"))
def test_writing_into_tensors_on_the_way_is_replayed_faithfully(function: Function) -> None:
    replay = script(record(function, [_example(3, 6)]))
    earlier: list[tuple[Tensor, Tensor]] = []
    for _ in range(4):
        x = _example(3, 6)
        kept = x.clone()
        found, expected = replay(x), function(x.clone())
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        assert torch.equal(x, kept), "the argument was written into"
        for then, value in earlier:
            assert torch.equal(then, value), "a result of an earlier call was written into"
        earlier += [(f, f.clone()) for f in found]


def test_a_function_that_takes_another_way_for_other_sizes_is_not_a_line() -> None:
    def by_size(x: Tensor) -> list[Tensor]:
        return [x.exp() if len(x) == 2 else x.exp() + 1]

    with pytest.raises(NotLinearError):
        script(record(by_size, [_example(3)]))

    def by_kind(x: Tensor) -> list[Tensor]:
        return [x.exp() if len(x) == 2 else x.sin()]

    with pytest.raises(NotLinearError):
        script(record(by_kind, [_example(3)]))

    def by_number(x: Tensor) -> list[Tensor]:
        return [x * (0.5 if len(x) == 2 else 0.25)]

    with pytest.raises(NotLinearError):
        script(record(by_number, [_example(3)]))


def test_a_function_that_looks_at_values_is_refused() -> None:
    with pytest.raises(NotLinearError, match="looks at values"):
        record(lambda x: [x if x.sum() > 0 else -x], [_example(3)])
