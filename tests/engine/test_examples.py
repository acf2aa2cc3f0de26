"""Scores of examples: every score type, from the model and from the store."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from contrapose.engine import (
    AnswerStore,
    NoiseImages,
    ScoringContext,
    default_scores,
    images,
    parse_question_template,
    part_writer,
    score_blind,
    score_edits,
    score_examples,
    score_gallery,
    score_priors,
    store_key,
)
from contrapose.errors import InputError
from contrapose.metrics import log_prior
from contrapose.models import QuestionTemplate
from contrapose.scores import build_frame
from tests.engine.models import Reader, Seeing
from tests.fakes import Fake, Tower, choices, edits, gallery, number, pairs, seen, vector

SCORES = ("itc", "itm", "lm", "prior")


def expected(score: str, image: str, text: str, noise: list[torch.Tensor]) -> float:
    """The score of one pair, written down a second time."""
    if score == "itc":
        return float(np.dot(vector(image), vector(text)))
    if score == "itm":
        return 4 * number(image, text) - 2
    words = [*text.split(), "."]

    def lm(shown: str) -> float:
        return float(np.mean([-number(shown, word, i) for i, word in enumerate(words)]))

    if score == "lm":
        return lm(image)
    return float(log_prior(np.array([lm(seen(blank)) for blank in noise])))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_every_pair_gets_its_score(score: str, batch: int) -> None:
    examples = [*pairs(), *choices()]
    model = Fake()
    answers = score_examples(ScoringContext(model, batch_size=batch), score, examples)
    noise = model.noise_images(3, 0)
    for k, example in enumerate(examples):
        for i, ref in enumerate(example.images):
            assert ref.source is not None
            shown = seen(type(ref.source).open_many([ref.source])[0])
            for j, text in enumerate(example.texts):
                result = answers.scores[k, i, j]
                assert result == pytest.approx(expected(score, shown, text, noise), abs=1e-6)
    assert np.isnan(answers.scores[~answers.frame.present]).all()


def test_scores_do_not_depend_on_the_batch_size() -> None:
    for score in SCORES:
        result = [
            score_examples(ScoringContext(Fake(), batch_size=size), score, pairs()).scores
            for size in (1, 2, 7, 64)
        ]
        assert all(np.array_equal(result[0], other) for other in result[1:])


def test_each_distinct_input_is_scored_once() -> None:
    examples = [*pairs(), *choices()]
    model = Fake()
    context = ScoringContext(model)
    score_examples(context, "itc", examples)
    assert len(model.images) == len(set(model.images)) == 24
    texts = {text for example in examples for text in example.texts}
    assert Counter(model.texts) == Counter(texts)
    score_examples(context, "itm", examples)
    assert max(Counter(model.pairs).values()) == 1
    # 12 examples of 2 × 2 and 12 of 1 × 3, of which six pairs are in both.
    assert len(model.pairs) == 48 + 36 - 6
    score_examples(context, "itm", examples)
    score_examples(context, "itc", list(reversed(examples)))
    assert (len(model.pairs), len(model.images)) == (78, 24)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("calls", [0, 1, 3, 6])
def test_a_killed_run_resumes(
    score: str, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_writer, "WRITE_INTERVAL", 0.0)
    full = Fake()
    expected_ = score_examples(ScoringContext(full), score, pairs())
    killed = Fake(after=calls)
    with pytest.raises(KeyboardInterrupt):
        score_examples(ScoringContext(killed, AnswerStore(tmp_path)), score, pairs())
    (tmp_path / "answers").mkdir(exist_ok=True)
    for folder in (tmp_path / "answers").glob("*/*"):
        (folder / ".torn.parquet").write_bytes(b"PAR1 half a part")
    resumed = Fake()
    result = score_examples(ScoringContext(resumed, AnswerStore(tmp_path)), score, pairs())
    assert np.array_equal(result.scores, expected_.scores)
    for name in ("images", "texts", "pairs"):
        asked = Counter(getattr(killed, name)) + Counter(getattr(resumed, name))
        if score == "prior":  # a batch is whole when every noise image has been seen
            assert Counter(getattr(full, name)) <= asked
        else:
            assert asked == Counter(getattr(full, name))
    again = Fake()
    score_examples(ScoringContext(again, AnswerStore(tmp_path)), score, pairs())
    assert not [*again.images, *again.texts, *again.pairs]


def test_models_and_priors_have_separate_tables(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    frame = build_frame(pairs())
    one = score_priors(ScoringContext(Fake(), store), frame)
    more = score_priors(ScoringContext(Fake(), store, prior=NoiseImages(5)), frame)
    seeded = score_priors(ScoringContext(Fake(), store, prior=NoiseImages(3, seed=1)), frame)
    assert not np.array_equal(one, more)
    assert not np.array_equal(one, seeded)
    other = Fake(fingerprint="fake-2")
    score_priors(ScoringContext(other, store), frame)
    assert other.pairs


def test_generated_images_are_made_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    full = score_examples(ScoringContext(Fake()), "lm", pairs()).scores
    monkeypatch.setattr(images, "RENDER_WINDOW", 5)
    assert np.array_equal(score_examples(ScoringContext(Fake()), "lm", pairs()).scores, full)
    model = Fake()
    score_examples(ScoringContext(model), "itc", pairs())
    assert len(model.images) == 24


def test_progress_ends_at_the_total() -> None:
    reports: list[tuple[str, int, int]] = []
    context = ScoringContext(
        Fake(), progress=lambda what, done, total: reports.append((what, done, total))
    )
    score_examples(context, "itc", pairs())
    score_examples(context, "itm", pairs())
    last = {what: (done, total) for what, done, total in reports if total > 1}
    assert all(done == total for done, total in {what: rest for what, *rest in reports}.values())
    assert last == {"itc: images": (24, 24), "itc: captions": (24, 24), "itm: pairs": (48, 48)}


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("score", ["itm", "lm", "prior"])
def test_scores_that_are_not_numbers_are_refused(score: str, broken: float) -> None:
    with pytest.raises(InputError, match=rf"'{score}' that is not a number"):
        score_examples(ScoringContext(Fake(broken=broken)), score, pairs())


def test_invalid_vectors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (float("nan"), 0.0):
        monkeypatch.setattr(
            Fake, "embed_texts", lambda _, texts, v=value: torch.full((len(texts), 6), v)
        )
        with pytest.raises(InputError, match="a vector of NaN, infinity or zeros"):
            score_examples(ScoringContext(Fake()), "itc", pairs())
    monkeypatch.setattr(Fake, "embed_texts", lambda _, texts: torch.zeros(1, 6))
    with pytest.raises(InputError, match=r"shape \(1, 6\) for 4 inputs"):
        score_examples(ScoringContext(Fake()), "itc", pairs())


def test_unknown_and_unsupported_scores() -> None:
    with pytest.raises(InputError, match="cannot give 'lm'; it gives itc"):
        score_examples(ScoringContext(Tower()), "lm", pairs())
    with pytest.raises(InputError, match="'itk': did you mean itm"):
        score_examples(ScoringContext(Tower()), "itk", pairs())
    with pytest.raises(InputError, match="need vectors"):
        score_edits(ScoringContext(Fake()), "lm", edits())


def test_galleries() -> None:
    data = gallery()
    model = Fake()
    for score in ("itc", "itm", "lm"):
        matrix = score_gallery(ScoringContext(model), score, data).scores
        assert matrix.shape == (12, 12)
        ref = data.images[3]
        assert ref.source is not None
        shown = seen(type(ref.source).open_many([ref.source])[0])
        assert matrix[3, 7] == pytest.approx(expected(score, shown, data.texts[7], []), abs=1e-6)


def test_edits_move_by_the_difference_of_words() -> None:
    data = edits()
    matrix = score_edits(ScoringContext(Fake()), "itc", data).matrix.scores
    assert matrix.shape == (11, 12)
    query = data.queries[4]
    vectors = []
    for ref in data.images:
        assert ref.source is not None
        vectors.append(vector(seen(type(ref.source).open_many([ref.source])[0])))
    moved = np.array(vectors[4]) + np.array(vector(query.target)) - np.array(vector(query.source))
    moved /= np.linalg.norm(moved)
    assert matrix[4] == pytest.approx(np.array(vectors) @ moved, abs=1e-5)


def test_refreshing_scores(tmp_path: Path) -> None:
    first = score_examples(ScoringContext(Fake(), AnswerStore(tmp_path)), "itm", pairs())
    again = Fake()
    context = ScoringContext(again, AnswerStore(tmp_path), cache_use="refresh")
    for _ in range(2):  # again, but not twice in one run
        assert np.array_equal(score_examples(context, "itm", pairs()).scores, first.scores)
    assert len(again.pairs) == 48

    class Other(Fake):
        def match(self, images, texts) -> torch.Tensor:  # type: ignore[no-untyped-def]
            return super().match(images, texts) + 1

    score_examples(
        ScoringContext(Other(), AnswerStore(tmp_path), cache_use="refresh"), "itm", pairs()
    )
    newest = score_examples(ScoringContext(Fake(), AnswerStore(tmp_path)), "itm", pairs())
    assert np.allclose(newest.scores, first.scores + 1)


def test_scores_from_the_cache_only(tmp_path: Path) -> None:
    context = ScoringContext(Fake(), AnswerStore(tmp_path), cache_use="only")
    with pytest.raises(InputError, match=r"48 of 48 .*not in the cache"):
        score_examples(context, "itm", pairs())
    score_examples(ScoringContext(Fake(), AnswerStore(tmp_path)), "itm", pairs(6))
    model = Fake()
    with pytest.raises(InputError, match="24 of 48 answers"):
        score_examples(
            ScoringContext(model, AnswerStore(tmp_path), cache_use="only"), "itm", pairs()
        )
    score_examples(ScoringContext(model, AnswerStore(tmp_path), cache_use="only"), "itm", pairs(6))
    assert not model.pairs


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_vqa_of_every_pair(batch: int) -> None:
    question = QuestionTemplate("Is it {}?", "no")
    context = ScoringContext(Seeing(), batch_size=batch, question=question)
    answers = score_examples(context, "vqa", pairs(4))
    for k, example in enumerate(pairs(4)):
        for i, ref in enumerate(example.images):
            assert ref.source is not None
            shown = seen(type(ref.source).open_many([ref.source])[0])
            for j, text in enumerate(example.texts):
                expected = -4 * number(shown, f"Is it {text}?", "no")
                assert answers.scores[k, i, j] == pytest.approx(expected, abs=1e-6)


def test_questions_have_separate_tables(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    result = []
    for text, answer in (("Is it {}?", "Yes"), ("Is it {}?", "yes"), ("Does it show {}?", "Yes")):
        model = Seeing()
        context = ScoringContext(model, store, question=QuestionTemplate(text, answer))
        result.append(score_examples(context, "vqa", pairs(2)).scores)
        assert len(model.pairs) == 8
    assert len({scores.tobytes() for scores in result}) == 3
    again = Seeing()
    context = ScoringContext(again, store, question=QuestionTemplate("Is it {}?", "yes"))
    assert np.array_equal(score_examples(context, "vqa", pairs(2)).scores, result[1])
    assert not again.pairs
    odd = QuestionTemplate('a":["/../{}', "é\n")
    context = ScoringContext(Seeing(), store, question=odd)
    score_examples(context, "vqa", pairs(1))
    assert store_key(Seeing(), "vqa", odd) != store_key(Seeing(), "vqa")


def test_parsing_question_templates() -> None:
    assert parse_question_template(None, None) == QuestionTemplate()
    assert parse_question_template("Is it {}?", " no ") == QuestionTemplate("Is it {}?", "no")
    for text in ("Is it a cat?", "{} or {}?"):
        with pytest.raises(InputError, match=r"question must hold \{\} once"):
            parse_question_template(text, None)
    with pytest.raises(InputError, match="answer must not be empty"):
        parse_question_template(None, " ")


def test_a_loss_is_not_a_log_probability() -> None:
    for score, model in (("vqa", Seeing(lifted=9.0)), ("lm", Fake(broken=2.5))):
        with pytest.raises(InputError, match="never above 0"):
            score_examples(ScoringContext(model), score, pairs(2))
    rounded = score_examples(ScoringContext(Seeing(lifted=5e-4), batch_size=64), "vqa", pairs(40))
    assert rounded.scores.max() <= 0


def test_blind_is_one_number_per_caption() -> None:
    model = Reader()
    answers = score_examples(ScoringContext(model), "blind", [*pairs(3), *choices(3)])
    assert len(model.read) == len(set(model.read))
    assert np.array_equal(answers.scores[:3, 0, :2], answers.scores[:3, 1, :2])
    text = pairs(3)[1].texts[1]
    words = text.split()
    expected = np.mean([-number(word, i) for i, word in enumerate(words)])
    assert answers.scores[1, 0, 1] == pytest.approx(expected, abs=1e-6)
    result = score_blind(ScoringContext(model), [text, "something new"])
    assert result[0] == pytest.approx(expected, abs=1e-6)
    assert store_key(model, "blind") == "blind:mean:caption"
    with pytest.raises(InputError, match="cannot give 'lm'; it gives blind"):
        score_examples(ScoringContext(model), "lm", pairs(1))


def test_default_scores() -> None:
    assert default_scores(Fake()) == ("itc", "itm", "lm")
    assert default_scores(Seeing()) == ("itc", "itm", "lm", "vqa")
    assert default_scores(Tower()) == ("itc",)
    assert default_scores(Reader()) == ("blind",)
