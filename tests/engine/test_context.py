"""Score requests: inputs that cannot be scored are recorded with a reason and never stored."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.data import Example, Gallery, ImageRef
from contrapose.data.examples import single_match
from contrapose.engine import (
    AnswerStore,
    NoiseImages,
    ScoringContext,
    score_edits,
    score_examples,
    score_gallery,
)
from tests.engine.models import Picky, Reading
from tests.fakes import Fake, Tower, choices, edits, patch

LONG = " ".join(["word"] * 10_000)


def save(path: Path, kind: str) -> Path:
    """An image file of an odd kind."""
    image = Image.new("RGB", (40, 30), (200, 30, 60))
    match kind:
        case "cmyk.jpg":
            image.convert("CMYK").save(path)
        case "deep.png":
            Image.fromarray(np.full((30, 40), 40_000, dtype=np.uint16)).save(path)
        case "animated.gif":
            more = [Image.new("RGB", (40, 30), (i, 90, 60)) for i in (3, 150)]
            image.save(path, save_all=True, append_images=more)
        case "huge.png":
            Image.new("1", (20_000, 10_000)).save(path)
        case "torn.jpg":
            image.save(path)
            path.write_bytes(path.read_bytes()[:300])
        case "text.png":
            path.write_text("not an image")
        case "empty.png":
            path.touch()
        case "missing.png":
            pass
    return path


REASONS = {
    "huge.png": "the image is too large to open",
    "torn.jpg": "the image cannot be decoded",
    "text.png": "the bytes are not an image in a known format",
    "empty.png": "the bytes are not an image in a known format",
    "missing.png": "the image is not there",
}
FINE = ("cmyk.jpg", "deep.png", "animated.gif")


def files(folder: Path) -> list[Example]:
    return [
        Example(kind, (ImageRef(kind, save(folder / kind, kind)),), (f"a {kind}", "b"),
                single_match(2, 0))
        for kind in (*REASONS, *FINE)
    ]  # fmt: skip


@pytest.mark.parametrize("score", ["itc", "itm", "lm"])
def test_images(score: str, tmp_path: Path) -> None:
    examples = [*files(tmp_path), *choices()]
    model = Fake()
    context = ScoringContext(model, AnswerStore(tmp_path / "store"))
    answers = score_examples(context, score, examples)
    assert {name: skip.reason for name, skip in answers.skipped.items()} == REASONS
    for name, skip in answers.skipped.items():
        assert str(tmp_path / name) in skip.detail
    holes = np.isnan(answers.scores) & answers.frame.present
    assert holes[: len(REASONS), 0, :2].all()
    assert not holes[len(REASONS) :].any()
    kept = answers.without_skipped()
    assert kept.frame.ids == (*FINE, *(example.id for example in choices()))
    alone = score_examples(ScoringContext(Fake()), score, choices())
    assert np.array_equal(kept.scores[len(FINE) :], alone.scores)
    # Mended, they are asked; the others are not asked again.
    for i, name in enumerate(REASONS):
        Image.new("RGB", (4, 4), (i, 1, 2)).save(tmp_path / name, "PNG")
    again = Fake()
    mended = score_examples(ScoringContext(again, AnswerStore(tmp_path / "store")), score, examples)
    assert not mended.skipped
    assert not np.isnan(mended.scores[mended.frame.present]).any()
    assert len(again.images if score == "itc" else again.pairs) == (5 if score == "itc" else 10)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = save(tmp_path / "cmyk.jpg", "cmyk.jpg")
    path.chmod(0)
    example = Example("x", (ImageRef("x", path),), ("a", "b"), single_match(2, 0))
    answers = score_examples(ScoringContext(Fake()), "itc", [example, *choices()])
    assert answers.skipped["x"].reason == "the image cannot be read"


@pytest.mark.parametrize("score", ["itc", "itm"])
def test_too_long_captions_are_skipped(score: str, tmp_path: Path) -> None:
    long = Example("long", (patch(1),), ("short", LONG), single_match(2, 0))
    model = Reading()
    store = AnswerStore(tmp_path)
    answers = score_examples(ScoringContext(model, store), score, [long, *choices()])
    assert {name: skip.reason for name, skip in answers.skipped.items()} == {
        "long": "the caption is longer than the model reads"
    }
    assert "has 10,001 tokens; fake reads 6" in answers.skipped["long"].detail
    assert not np.isnan(answers.without_skipped().scores).any()
    assert len(model.counted) == len(set(model.counted))
    # Cut, it has an answer of its own, which the model that does not cut never sees.
    cutting = Reading(cuts=True)
    cut = score_examples(ScoringContext(cutting, AnswerStore(tmp_path)), score, [long, *choices()])
    assert not cut.skipped
    assert cut.notes == ("1 of 27 captions was cut to 6 tokens",)
    assert len(cutting.texts if score == "itc" else cutting.pairs) == 1
    assert not cutting.counted
    assert (
        "long"
        in score_examples(ScoringContext(Reading(), AnswerStore(tmp_path)), score, [long]).skipped
    )


def test_a_model_that_does_not_count_refuses_by_itself() -> None:
    from contrapose.models import load_model

    examples = [
        Example("long", (patch(1),), ("a red cube", LONG), single_match(2, 0)),
        Example("fine", (patch(2),), ("a red cube", "a blue cube"), single_match(2, 0)),
    ]
    for score in ("itc", "itm", "lm"):
        answers = score_examples(ScoringContext(load_model("tiny")), score, examples)
        assert list(answers.skipped) == ["long"]
        assert not np.isnan(answers.scores[1]).any()


@pytest.mark.parametrize("score", ["itc", "itm", "lm", "prior"])
def test_a_refused_batch_is_scored_one_by_one(score: str) -> None:
    examples = choices(20)
    model = Picky()
    context = ScoringContext(model, batch_size=16)
    answers = score_examples(context, score, examples)
    assert list(answers.skipped) == ["c13"]
    assert answers.skipped["c13"].reason.startswith("the model refuses the ")
    assert "'a patch 13'" in answers.skipped["c13"].detail
    full = score_examples(ScoringContext(Fake(), batch_size=16), score, examples)
    good = [i for i in range(20) if i != 13]
    assert np.array_equal(answers.scores[good], full.scores[good])
    if score == "itm":  # what was refused once is not asked again
        before = len(model.pairs)
        score_examples(context, score, examples)
        assert len(model.pairs) == before


def test_galleries(tmp_path: Path) -> None:
    lost = ImageRef("lost", tmp_path / "lost.png")
    data = Gallery("g", (patch(0), lost, patch(2)), ("zero", "one", LONG), ((0, 0), (1, 1), (2, 2)))
    for score in ("itc", "itm"):
        grid = score_gallery(ScoringContext(Reading()), score, data)
        assert list(grid.skipped_rows) == [1]
        assert list(grid.skipped_columns) == [2]
        assert np.isnan(grid.scores).tolist() == [
            [False, False, True], [True, True, True], [False, False, True],
        ]  # fmt: skip


def test_all_images_unreadable(tmp_path: Path) -> None:
    lost = tuple(ImageRef(f"{i}", tmp_path / f"{i}.png") for i in range(2))
    for score in ("itc", "itm"):
        grid = score_gallery(
            ScoringContext(Fake()), score, Gallery("g", lost, ("a", "b"), ((0, 0), (1, 1)))
        )
        assert list(grid.skipped_rows) == [0, 1]
        assert np.isnan(grid.scores).all()


def test_edits(tmp_path: Path) -> None:
    data = edits()
    images = (*data.images[:3], ImageRef("lost", tmp_path / "lost.png"), *data.images[4:])
    grid = score_edits(ScoringContext(Tower()), "itc", type(data)(
        images, data.captions, data.caption_of, data.queries
    )).matrix  # fmt: skip
    assert list(grid.skipped_rows) == list(grid.skipped_columns) == [3]


def test_templates_are_averaged() -> None:
    templates = ("a {}", "the {} here", "no {}")
    data = Gallery("c", (patch(0), patch(1)), ("cat", "dog"), ((0, 0), (1, 1)), templates)
    context = ScoringContext(Fake(), prior=NoiseImages(2))
    single = {
        score: score_gallery(context, score, Gallery("s", data.images, tuple(
            template.replace("{}", name) for name in data.texts for template in templates
        ), ((0, 0),))).scores.reshape(2, 2, 3)
        for score in ("itm", "lm")
    }  # fmt: skip
    for score in ("itm", "lm"):
        result = score_gallery(context, score, data).scores
        assert result == pytest.approx(single[score].mean(axis=2), abs=1e-12)
    from tests.fakes import seen, vector

    for i, ref in enumerate(data.images):
        assert ref.source is not None
        image = np.array(vector(seen(type(ref.source).open_many([ref.source])[0])))
        for j, name in enumerate(data.texts):
            mean = np.mean([vector(t.replace("{}", name)) for t in templates], axis=0)
            expected = float(image @ (mean / np.linalg.norm(mean)))
            assert score_gallery(context, "itc", data).scores[i, j] == pytest.approx(
                expected, abs=1e-6
            )
