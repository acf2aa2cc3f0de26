from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.data import tagging
from contrapose.data.tagging import join_words, split_words, tag_groups, tag_words, word_group
from contrapose.errors import ContraposeError, MissingExtraError


@pytest.fixture
def fresh() -> Any:
    """Forget loaded taggers before and after."""
    tagging._load_tagger.cache_clear()
    yield
    tagging._load_tagger.cache_clear()


def test_words() -> None:
    text = "A man's t-shirt, black/white; 50% off at 3.5 “m”?"
    assert split_words(text) == [
        "A", "man's", "t-shirt", ",", "black/white", ";", "50", "%", "off", "at", "3.5",
        "“", "m", "”", "?",
    ]  # fmt: skip


def test_join_sets_closing_marks_against_the_word() -> None:
    assert join_words(["a", "dog", ",", "a", "-", "cat", "?"]) == "a dog, a - cat?"
    assert join_words([",", "a"]) == ", a"
    assert join_words([]) == ""


@given(st.text())
def test_join_loses_no_word(text: str) -> None:
    words = split_words(text)
    assert split_words(join_words(words)) == words


@given(st.text())
def test_words_and_marks_make_up_the_text(text: str) -> None:
    assert "".join(split_words(text)) == "".join(text.split())


def test_tags_of_a_caption() -> None:
    assert tag_words("a tall man holds two brown horses, slowly") == [
        ("a", "DT"),
        ("tall", "JJ"),
        ("man", "NN"),
        ("holds", "VBZ"),
        ("two", "CD"),
        ("brown", "JJ"),
        ("horses", "NNS"),
        (",", ","),
        ("slowly", "RB"),
    ]


def test_nothing_has_no_tags() -> None:
    assert tag_words("  ") == []


@given(st.text(max_size=60))
def test_every_word_gets_one_tag(text: str) -> None:
    tagged = tag_words(text)
    assert [word for word, _ in tagged] == split_words(text)
    assert all(penn for _, penn in tagged)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("tagger", "extra"), [("textblob", "text"), ("spacy", "spacy")])
def test_a_missing_tagger_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, tagger: tagging.Tagger, extra: str
) -> None:
    for module in (tagger, f"{tagger}.en", f"{tagger}.tokens"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"contrapose\[{extra}\]"):
        tag_words("a dog", tagger)


class FakeSpacy(ModuleType):
    """A spaCy that is there, with or without its model."""

    def __init__(self, *, model: bool):
        super().__init__("spacy")
        self.model = model
        self.tokens = ModuleType("spacy.tokens")
        self.tokens.Doc = lambda _, words: words  # type: ignore[attr-defined]

    def load(self, name: str) -> Any:
        if not self.model:
            raise OSError(name)

        class Model:
            vocab = None

            def __call__(self, words: list[str]) -> list[SimpleNamespace]:
                return [SimpleNamespace(text=word, tag_=f"{name}:{word}") for word in words]

        return Model()


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeSpacy) -> None:
    monkeypatch.setitem(sys.modules, "spacy", fake)
    monkeypatch.setitem(sys.modules, "spacy.tokens", fake.tokens)


@pytest.mark.usefixtures("fresh")
def test_spacy_tags_our_words_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeSpacy(model=True))
    model = tagging.SPACY_MODEL
    assert tag_words("t-shirt, a", "spacy") == [(w, f"{model}:{w}") for w in ("t-shirt", ",", "a")]


@pytest.mark.usefixtures("fresh")
def test_a_missing_model_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeSpacy(model=False))
    with pytest.raises(ContraposeError, match="spacy download en_core_web_sm"):
        tag_words("a dog", "spacy")


def test_groups_of_tags() -> None:
    assert [word_group(penn) for penn in ("NNS", "VBZ", "IN", "JJR", "CD", "DT", "RB")] == [
        *("O", "R", "R", "A", "A"),
        None,
        None,
    ]


def test_groups_a_text_lacks_are_left_out() -> None:
    assert tag_groups("a dog and a cat") == {"O": ((2, 5), (12, 15))}
    assert tag_groups("") == {}
