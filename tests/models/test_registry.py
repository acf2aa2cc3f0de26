"""Models are found by name; what they can do is told by their methods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrapose.engine import default_scores
from contrapose.errors import InputError
from contrapose.files import include
from contrapose.models import (
    Captioner,
    Encoder,
    Matcher,
    families,
    load_model,
    model_names,
    parse_name,
    register_model,
    registry,
)
from tests.fakes import Entry, Fake, Tower

FILE = """
from tests.fakes import Fake, Tower

class Mine(Tower):
    pass

def load(device, dtype="fp32", cut=False):
    return Fake(name=f"{device} {dtype} {cut}")

def strange(what):
    return Fake()

def named(name):
    return Fake(name=name)

instance = Fake(name="made already")
number = 3
"""


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    entries: list[Entry] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    monkeypatch.setattr(registry, "_loaders", {})
    registry._find_plugins.cache_clear()
    yield entries
    registry._find_plugins.cache_clear()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.py"
    file.write_text(FILE)
    return file


def test_capabilities_are_methods() -> None:
    assert isinstance(Fake(), Encoder)
    assert isinstance(Fake(), Matcher)
    assert isinstance(Fake(), Captioner)
    assert isinstance(Tower(), Encoder)
    assert not isinstance(Tower(), Matcher | Captioner)
    assert default_scores(Fake()) == ("itc", "itm", "lm")
    assert default_scores(Tower()) == ("itc",)


def test_names(plugged: list[Entry]) -> None:
    assert model_names() == ("tiny", "tiny-clip")
    with pytest.raises(InputError, match=r"no model 'tinny': did you mean tiny"):
        load_model("tinny")
    with pytest.raises(InputError, match="models here: tiny, tiny-clip"):
        load_model("zzzzqqqq")


def test_plug_ins(plugged: list[Entry]) -> None:
    plugged.append(
        Entry("fake", "package:load", lambda name, device: Fake(name=f"{name} {device}"))
    )
    plugged.append(Entry("broken", "package:broken", lambda name, device: "a string"))
    assert load_model("fake").name == "fake cpu"
    with pytest.raises(InputError, match="'broken' gives no model: it needs a name"):
        load_model("broken")
    with pytest.raises(InputError, match="no model 'fakee': did you mean fake"):
        load_model("fakee")


def test_registering(plugged: list[Entry]) -> None:
    @register_model("mine")
    def load(device: str) -> Fake:
        return Fake(name=f"mine on {device}")

    assert "mine" in model_names()
    assert load_model("mine").name == "mine on cpu"
    for taken in ("tiny", "tiny-clip"):
        with pytest.raises(InputError, match=f"there is a model '{taken}' already"):
            register_model(taken)
    for confusing in ("", "a/b", "a:b", "a?b", "a,b", "a@b", ".."):
        with pytest.raises(InputError, match="give it a plain name"):
            register_model(confusing)


def test_code_of_one_s_own(own: Path, plugged: list[Entry]) -> None:
    assert isinstance(load_model(f"{own}:Mine"), Tower)
    assert load_model(f"{own}:load").name == "cpu fp32 False"
    assert load_model(f"{own}:load,dtype=bf16,long=cut").name == "cpu bf16 True"
    assert load_model(f"{own}:load", dtype="float16", cut=True).name == "cpu fp16 True"
    assert load_model(f"{own}:instance").name == "made already"
    assert load_model(f"{own}:named").name == f"{own}:named"
    assert isinstance(load_model("tests.fakes:Tower"), Tower)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("own.py:Mien", "has no 'Mien': did you mean Mine"),
        ("own.py:strange", "takes 'what', and loaders are given name, device, dtype"),
        ("own.py:number", "neither a model nor a function"),
        ("own.py:Mine,dtype=bf16", "has no choice of dtype: leave out bf16"),
        ("own.py:Mine,long=cut", "cannot cut captions: leave out long=cut"),
        ("own.py:load,activation=gelu", "that is for open_clip models"),
        ("nowhere.py:Mine", "nowhere.py: there is no such file to include"),
    ],
)
def test_code_that_will_not_do(
    own: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.chdir(own.parent)
    with pytest.raises(InputError, match=says):
        load_model(name)


def test_packages_that_are_not_there() -> None:
    with pytest.raises(InputError, match="'no_such_pkg:Model' cannot be imported"):
        load_model("no_such_pkg:Model")
    with pytest.raises(InputError, match="did you mean openclip"):
        load_model("opencip:Model")


def test_built_in_models_and_their_settings() -> None:
    assert load_model("tiny,long=cut,dtype=bf16").name == "tiny,dtype=bf16,long=cut"
    assert load_model("tiny", dtype="fp32").name == "tiny"
    with pytest.raises(InputError, match="tiny has no choice of activation"):
        load_model("tiny,activation=gelu")
    with pytest.raises(InputError, match="there is no device 'gpu'"):
        load_model("tiny", device="gpu")
    assert load_model("tiny-clip", device="auto").name == "tiny-clip"


def test_an_included_file_registers(tmp_path: Path, plugged: list[Entry]) -> None:
    file = tmp_path / "registers.py"
    file.write_text(
        "from contrapose.models import register_model\nfrom tests.fakes import Fake\n"
        "register_model('included')(Fake)\n"
    )
    include(file)
    assert isinstance(load_model("included"), Fake)


def test_families_name_what_can_be_typed() -> None:
    cards = families()
    assert len({card.name for card in cards}) == len(cards)
    for card in cards:
        assert str(parse_name(card.example, model_names())) == card.example
        assert card.pattern
    itc: Any = {card.name for card in cards if "itc" in card.scores}
    assert {"tiny", "CLIP", "SigLIP", "open_clip", "joined encoders", "BLIP"} <= itc
