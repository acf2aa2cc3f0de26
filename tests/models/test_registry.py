"""Models are found by name; what they can do is told by their methods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contrapose.errors import InputError
from contrapose.models import Captioner, Encoder, Matcher, load_model, model_names, registry
from contrapose.scoring import scores_of
from tests.fakes import Entry, Fake, Tower


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    entries: list[Entry] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    registry._plugins.cache_clear()
    yield entries
    registry._plugins.cache_clear()


def test_capabilities_are_methods() -> None:
    assert isinstance(Fake(), Encoder)
    assert isinstance(Fake(), Matcher)
    assert isinstance(Fake(), Captioner)
    assert isinstance(Tower(), Encoder)
    assert not isinstance(Tower(), Matcher | Captioner)
    assert scores_of(Fake()) == ("itc", "itm", "lm")
    assert scores_of(Tower()) == ("itc",)


def test_names(plugged: list[Entry]) -> None:
    assert {"tiny", "tiny-clip"} <= set(model_names())
    with pytest.raises(InputError, match=r"no model 'tinny': did you mean tiny"):
        load_model("tinny")
    with pytest.raises(InputError, match="models here: tiny, tiny-clip"):
        load_model("zzzzqqqq")


def test_plug_ins(plugged: list[Entry]) -> None:
    plugged.append(
        Entry("fake", "package:load", lambda name, device: Fake(name=f"{name} {device}"))
    )
    plugged.append(Entry("broken", "package:broken", lambda name, device: "a string"))
    assert load_model("fake", device="cuda").name == "fake cuda"
    with pytest.raises(InputError, match=r"'broken' \(package:broken\) is not a model"):
        load_model("broken")
