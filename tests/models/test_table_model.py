"""The model of tables starts as the mean or as persistence, and learns the rest."""

from functools import partial

import torch

from alphaedge import Dataset, Field, Stream, simulate
from alphaedge.models.table_model import table_model

FIELDS = (Field("shop", "category", 3), Field("x", "number", 2, missing=True), Field("ago", "number"))


def inputs(count: int = 6) -> list[torch.Tensor]:
    return [torch.arange(count) % 3, torch.randn(count, 2), torch.randn(count, 1)]


def test_it_adds_nothing_to_the_mean_at_the_start() -> None:
    model = table_model(FIELDS)
    found = model.module.eval()(*inputs(), *model.untold(6))
    assert found.abs().max() < 0.01, "in deviations"


def test_its_weights_of_rates_start_at_one() -> None:
    model = table_model(FIELDS)
    told = torch.tensor([[0.5, 9.0, 9.0]]).repeat(6, 1)
    found = model.module.eval()(*inputs(), told)
    torch.testing.assert_close(found, torch.full((6,), 0.5), rtol=0, atol=0.01)


def test_numbers_may_be_missing() -> None:
    model, given = table_model(FIELDS), inputs()
    model.module.train()(*given, *model.untold(6))
    given[1][0, 0] = torch.nan
    assert model.module.eval()(*given, *model.untold(6)).isfinite().all()


def test_categories_have_rows_and_tallies() -> None:
    model = table_model(FIELDS, last="ago", relative=True)
    assert [(t.name, t.tallied) for t in model.tables] == [("shop", True)]
    assert model.fields[model.last or 0] == "ago"


def test_two_confounded_categories_are_told_apart() -> None:
    """The label depends on the colour alone, but most of what is red was sold on Monday."""
    g = torch.Generator().manual_seed(0)
    colour = torch.randint(2, (1200,), generator=g)
    day = torch.where(torch.rand(1200, generator=g) < 0.85, colour, 1 - colour)
    stream = Stream({"day": day, "colour": colour}, 100 + 20 * colour.float(), torch.arange(1200).double())
    fields = (Field("day", "category", 2), Field("colour", "category", 2))
    data = Dataset("colours", "regress", fields, (stream,))
    found = simulate(data=data, model=partial(table_model, fields), methods=["noagg"], batch_size=10, rate=0.001)
    assert found.scores["score"].tail(30).mean() > 0.995  # type: ignore[operator]
