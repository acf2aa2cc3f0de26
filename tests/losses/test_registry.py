from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest
from torch import Tensor

from contrapose.errors import InputError
from contrapose.files import include
from contrapose.losses import NEEDS, EqSim, LossBatch, load_loss, loss_names, register_loss
from contrapose.losses import registry as losses
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student

FILE = """
from contrapose.losses import register_loss

@register_loss
class Margin:
    name, weight, needs = "margin", 2.0, {"negative"}

    def __call__(self, batch):
        gap = (batch.image * (batch.text - batch.negative)).sum(1)
        return ((0.2 - gap).clamp(min=0) * batch.has_negative).mean()
"""


class Outside:
    """A loss of another package."""

    name: ClassVar[str] = "outside"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"positive"})

    def __call__(self, batch: LossBatch) -> Tensor:
        return (batch.text - batch.require("positive")).square().mean()


def broken() -> Outside:
    raise RuntimeError("no.\nmore")


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    loss_names()
    monkeypatch.setattr(losses, "_FACTORIES", dict(losses._FACTORIES))
    losses._entry_points.cache_clear()
    yield
    losses._entry_points.cache_clear()


def test_built_in_losses_have_names() -> None:
    names = loss_names()
    assert {"eqsim", "eqsim-paper", "hn", "hp", "hp-even", "infonce", "itm", "lm"} <= set(names)
    assert load_loss("eqsim-paper") == EqSim.paper()
    for name in names:
        loss = load_loss(name)
        assert name.startswith(loss.name.partition("-")[0])
        assert loss.needs <= NEEDS.keys()


def test_a_loss_of_a_file_trains(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "margin.py"
    file.write_text(FILE, encoding="utf-8")
    include(file)
    assert "margin" in loss_names()
    student = small_student()
    settings = Settings(steps=40, batch=6, rate=1e-3, save_every=0)
    trained = train(student, small_rows(), parse_objective("margin=5+hp"), settings)
    assert {"contrast", "margin", "hp"} == trained.losses.keys()
    assert trained.losses["margin"] < 0.2


@pytest.mark.parametrize("target", ["Outside", "EqSim"])
def test_a_loss_of_an_entry_point(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", f"{__name__}:{target}", losses.ENTRY_POINT_GROUP)
    monkeypatch.setattr(losses, "entry_points", lambda group: [entry])
    assert "mine" in loss_names()
    assert load_loss("mine").name == {"Outside": "outside", "EqSim": "eqsim"}[target]
    assert parse_objective("mine=3+hn").weight(load_loss("mine").name) == 3


def test_an_entry_point_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", f"{__name__}:missing", losses.ENTRY_POINT_GROUP)
    monkeypatch.setattr(losses, "entry_points", lambda group: [entry])
    with pytest.raises(InputError, match=r"mine.*cannot be loaded"):
        load_loss("mine")


def test_what_is_no_loss() -> None:
    with pytest.raises(InputError, match="did you mean"):
        load_loss("eqsin")
    with pytest.raises(InputError, match="already a loss"):
        register_loss(Outside, "eqsim")
    with pytest.raises(InputError, match="without spaces"):
        register_loss(Outside, "a+b")
    for attribute, value, said in (
        ("weight", 0.0, "weight.*above zero"), ("needs", {"what"}, "needs.*set of"),
        ("name", 3, "name"),
    ):  # fmt: skip
        bad = type("Bad", (Outside,), {attribute: value})
        with pytest.raises(InputError, match=said):
            register_loss(bad, "bad")
