"""Scores `vqa` and `blind`: what is asked, kept, named and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contrapose.engine import (
    AnswerStore,
    ScoringContext,
    default_scores,
    parse_question_template,
    score_blind,
    score_examples,
)
from contrapose.engine.score_types import store_key
from contrapose.errors import InputError
from contrapose.models import QuestionTemplate
from tests.engine.models import Reader, Seeing
from tests.fakes import Fake, Tower, choices, number, pairs, seen


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_every_pair_is_asked_the_question(batch: int) -> None:
    question = QuestionTemplate("Is it {}?", "no")
    asking = ScoringContext(Seeing(), batch_size=batch, question=question)
    answers = score_examples(asking, "vqa", pairs(4))
    for k, example in enumerate(pairs(4)):
        for i, ref in enumerate(example.images):
            assert ref.source is not None
            shown = seen(type(ref.source).open_many([ref.source])[0])
            for j, text in enumerate(example.texts):
                expected = -4 * number(shown, f"Is it {text}?", "no")
                assert answers.scores[k, i, j] == pytest.approx(expected, abs=1e-6)


def test_questions_do_not_share_answers(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    found = []
    for text, answer in (("Is it {}?", "Yes"), ("Is it {}?", "yes"), ("Does it show {}?", "Yes")):
        model = Seeing()
        asking = ScoringContext(model, store, question=QuestionTemplate(text, answer))
        found.append(score_examples(asking, "vqa", pairs(2)).scores)
        assert len(model.pairs) == 8
    assert len({scores.tobytes() for scores in found}) == 3
    again = Seeing()
    asking = ScoringContext(again, store, question=QuestionTemplate("Is it {}?", "yes"))
    assert np.array_equal(score_examples(asking, "vqa", pairs(2)).scores, found[1])
    assert not again.pairs
    odd = QuestionTemplate('a":["/../{}', "é\n")
    asking = ScoringContext(Seeing(), store, question=odd)
    score_examples(asking, "vqa", pairs(1))
    assert store_key(Seeing(), "vqa", odd) != store_key(Seeing(), "vqa")


def test_questions_as_the_user_gives_them() -> None:
    assert parse_question_template(None, None) == QuestionTemplate()
    assert parse_question_template("Is it {}?", " no ") == QuestionTemplate("Is it {}?", "no")
    for text in ("Is it a cat?", "{} or {}?"):
        with pytest.raises(InputError, match=r"--question must hold \{\} once"):
            parse_question_template(text, None)
    with pytest.raises(InputError, match="--answer must not be empty"):
        parse_question_template(None, " ")


def test_a_loss_is_not_a_log_probability() -> None:
    for score, model in (("vqa", Seeing(lifted=9.0)), ("lm", Fake(broken=2.5))):
        with pytest.raises(InputError, match="never above 0, and a loss has the other sign"):
            score_examples(ScoringContext(model), score, pairs(2))
    rounded = score_examples(ScoringContext(Seeing(lifted=5e-4), batch_size=64), "vqa", pairs(40))
    assert rounded.scores.max() <= 0


def test_blind_is_one_number_a_caption() -> None:
    model = Reader()
    answers = score_examples(ScoringContext(model), "blind", [*pairs(3), *choices(3)])
    assert len(model.read) == len(set(model.read))
    assert np.array_equal(answers.scores[:3, 0, :2], answers.scores[:3, 1, :2])
    text = pairs(3)[1].texts[1]
    words = text.split()
    expected = np.mean([-number(word, i) for i, word in enumerate(words)])
    assert answers.scores[1, 0, 1] == pytest.approx(expected, abs=1e-6)
    found = score_blind(ScoringContext(model), [text, "something new"])
    assert found[0] == pytest.approx(expected, abs=1e-6)
    assert store_key(model, "blind") == "blind:mean:caption"
    with pytest.raises(InputError, match="reader cannot give 'lm'; it gives blind"):
        score_examples(ScoringContext(model), "lm", pairs(1))


def test_scores_when_the_user_names_none() -> None:
    assert default_scores(Fake()) == ("itc", "itm", "lm")
    assert default_scores(Seeing()) == ("itc", "itm", "lm", "vqa")
    assert default_scores(Tower()) == ("itc",)
    assert default_scores(Reader()) == ("blind",)
