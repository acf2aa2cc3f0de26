"""Scores `vqa` and `blind`: what is asked, kept, named and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.models import QuestionTemplate
from contrapose.scoring import (
    Asking,
    Store,
    ask_examples,
    blind_values,
    parse_question,
    scores_of,
)
from contrapose.scoring.scores import stored_as
from tests.fakes import Fake, Tower, choices, number, pairs, seen
from tests.scoring.models import Reader, Seeing


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_every_pair_is_asked_the_question(batch: int) -> None:
    question = QuestionTemplate("Is it {}?", "no")
    asking = Asking(Seeing(), batch_size=batch, question=question)
    answers = ask_examples(asking, "vqa", pairs(4))
    for k, example in enumerate(pairs(4)):
        for i, ref in enumerate(example.images):
            assert ref.source is not None
            shown = seen(type(ref.source).open_many([ref.source])[0])
            for j, text in enumerate(example.texts):
                expected = -4 * number(shown, f"Is it {text}?", "no")
                assert answers.scores[k, i, j] == pytest.approx(expected, abs=1e-6)


def test_questions_do_not_share_answers(tmp_path: Path) -> None:
    store = Store(tmp_path)
    found = []
    for text, answer in (("Is it {}?", "Yes"), ("Is it {}?", "yes"), ("Does it show {}?", "Yes")):
        model = Seeing()
        asking = Asking(model, store, question=QuestionTemplate(text, answer))
        found.append(ask_examples(asking, "vqa", pairs(2)).scores)
        assert len(model.pairs) == 8
    assert len({scores.tobytes() for scores in found}) == 3
    again = Seeing()
    asking = Asking(again, store, question=QuestionTemplate("Is it {}?", "yes"))
    assert np.array_equal(ask_examples(asking, "vqa", pairs(2)).scores, found[1])
    assert not again.pairs
    odd = QuestionTemplate('a":["/../{}', "é\n")
    asking = Asking(Seeing(), store, question=odd)
    ask_examples(asking, "vqa", pairs(1))
    assert stored_as(Seeing(), "vqa", odd) != stored_as(Seeing(), "vqa")


def test_questions_as_the_user_gives_them() -> None:
    assert parse_question(None, None) == QuestionTemplate()
    assert parse_question("Is it {}?", " no ") == QuestionTemplate("Is it {}?", "no")
    for text in ("Is it a cat?", "{} or {}?"):
        with pytest.raises(InputError, match=r"--question must hold \{\} once"):
            parse_question(text, None)
    with pytest.raises(InputError, match="--answer must not be empty"):
        parse_question(None, " ")


def test_a_loss_is_not_a_log_probability() -> None:
    for score, model in (("vqa", Seeing(lifted=9.0)), ("lm", Fake(broken=2.5))):
        with pytest.raises(InputError, match="never above 0, and a loss has the other sign"):
            ask_examples(Asking(model), score, pairs(2))
    rounded = ask_examples(Asking(Seeing(lifted=5e-4), batch_size=64), "vqa", pairs(40))
    assert rounded.scores.max() <= 0


def test_blind_is_one_number_a_caption() -> None:
    model = Reader()
    answers = ask_examples(Asking(model), "blind", [*pairs(3), *choices(3)])
    assert len(model.read) == len(set(model.read))
    assert np.array_equal(answers.scores[:3, 0, :2], answers.scores[:3, 1, :2])
    text = pairs(3)[1].texts[1]
    words = text.split()
    expected = np.mean([-number(word, i) for i, word in enumerate(words)])
    assert answers.scores[1, 0, 1] == pytest.approx(expected, abs=1e-6)
    found = blind_values(Asking(model), [text, "something new"])
    assert found[0] == pytest.approx(expected, abs=1e-6)
    assert stored_as(model, "blind") == "blind:mean:caption"
    with pytest.raises(InputError, match="reader cannot give 'lm'; it gives blind"):
        ask_examples(Asking(model), "lm", pairs(1))


def test_scores_when_the_user_names_none() -> None:
    assert scores_of(Fake()) == ("itc", "itm", "lm")
    assert scores_of(Seeing()) == ("itc", "itm", "lm", "vqa")
    assert scores_of(Tower()) == ("itc",)
    assert scores_of(Reader()) == ("blind",)
