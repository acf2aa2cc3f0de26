"""Caption priors under noise, folders of images and other examples' images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import Example, ImageRef
from contrapose.data.examples import diagonal_match
from contrapose.engine import (
    AnswerStore,
    FolderImages,
    NoiseImages,
    OtherImages,
    Prior,
    ScoringContext,
    compute_priors,
    describe_prior,
    parse_prior,
    plan_examples,
    score_examples,
    score_priors,
)
from contrapose.engine.priors import draw_other_images
from contrapose.errors import InputError
from contrapose.metrics import log_prior
from contrapose.scores import build_frame
from tests.engine.models import Seeing
from tests.fakes import Fake, choices, pairs, patch, seen


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("noise", NoiseImages(3, 7)),
        ("noise:5", NoiseImages(5, 7)),
        ("noise:2:mean=0.5:std=1", NoiseImages(2, 7, 0.5, 1.0)),
        ("images:photos", FolderImages(Path("photos"), None, 7)),
        ("images:a/b c:12", FolderImages(Path("a/b c"), 12, 7)),
        ("images:x:y", FolderImages(Path("x:y"), None, 7)),
        ("gallery", OtherImages(None, 7)),
        ("gallery:4", OtherImages(4, 7)),
    ],
)
def test_parsing_priors(text: str, prior: Prior) -> None:
    assert parse_prior(text, seed=7) == prior


@pytest.mark.parametrize(
    "text",
    ["", "images", "images:", "noise:0", "noise:x", "noise:2:std=0", "noise:2:mean=nan",
     "noise:2:size=3", "gallery:0", "gallery:many", "images:photos:0", "train"],
)  # fmt: skip
def test_invalid_priors_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="prior must be noise:3"):
        parse_prior(text)


def plain_lm(model: Fake, image: object, text: str) -> float:
    """The model's own mean, asked for one pair."""
    alone = Fake().token_logprobs([image], [text]) if type(model) is Fake else None  # type: ignore[list-item]
    ragged = alone or Seeing().token_logprobs([image], [text])  # type: ignore[list-item]
    return float(ragged.values.double().mean())


@pytest.mark.parametrize("model", [Fake(), Seeing()], ids=["plain", "looks"])
def test_the_prior_is_the_log_of_the_mean_probability(model: Fake) -> None:
    frame = build_frame(pairs())
    result = score_priors(ScoringContext(model, prior=NoiseImages(4, seed=3)), frame)
    noise = model.noise_images(4, 3)
    assert frame.texts is not None
    for k, texts in enumerate(frame.texts):
        for j, text in enumerate(texts):
            item = [np.exp(plain_lm(model, blank, text)) for blank in noise]
            assert result[k, j] == pytest.approx(np.log(np.mean(item)), abs=1e-6)


def test_noise_is_encoded_once() -> None:
    model = Seeing(batch_size=4)
    score_priors(ScoringContext(model, prior=NoiseImages(3)), build_frame(pairs()))
    assert sorted(model.looked) == sorted(map(seen, Seeing().noise_images(3, 0)))
    assert model.shown == 0
    assert len(model.pairs) == 3 * 24
    few = Seeing(batch_size=100)  # one batch: the model sees by itself that images are the same
    score_priors(ScoringContext(few, prior=NoiseImages(3)), build_frame(pairs()))
    assert few.looked == []


def test_images_are_encoded_once_where_captions_fill_batches() -> None:
    many = [
        Example("x", (patch(0),), tuple(f"a {i}" for i in range(30)), (((True,) + (False,) * 29),))
    ]
    model = Seeing(batch_size=4)
    answers = score_examples(ScoringContext(model), "lm", many)
    assert len(model.looked) == 1
    assert np.array_equal(answers.scores, score_examples(ScoringContext(Fake()), "lm", many).scores)
    usual = Seeing(batch_size=4)
    score_examples(ScoringContext(usual), "lm", pairs())
    assert usual.looked == []


def test_other_noise_is_another_prior(tmp_path: Path) -> None:
    store, frame = AnswerStore(tmp_path), build_frame(pairs(4))
    usual = score_priors(ScoringContext(Seeing(), store), frame)
    wide = score_priors(ScoringContext(Seeing(), store, prior=NoiseImages(std=4.0)), frame)
    native = score_priors(
        ScoringContext(Seeing(), store, prior=NoiseImages(mean=0.5, std=2.0)), frame
    )
    other = score_priors(ScoringContext(Seeing(noise_std=4.0), store), frame)
    assert not np.array_equal(usual, wide)
    assert np.array_equal(usual, native)
    assert np.allclose(wide, other)
    names = {folder.name for folder in (tmp_path / "answers" / "fake-1").iterdir()}
    assert len([name for name in names if "noise" in name]) == 2
    with pytest.raises(InputError, match="leave out mean= and std="):
        score_priors(ScoringContext(Fake(), prior=NoiseImages(std=1.0)), frame)
    assert (
        describe_prior(NoiseImages(1), Seeing())
        == "1 noise image, seed 0, mean 0.5, standard deviation 2"
    )
    assert describe_prior(NoiseImages(2, 4), Fake()) == "2 noise images, seed 4"


def test_the_prior_of_an_answer() -> None:
    model = Seeing()
    frame = build_frame(pairs(3))
    result = score_priors(ScoringContext(model, prior=NoiseImages(2)), frame, "vqa")
    context = ScoringContext(model)
    assert frame.texts is not None
    text = frame.texts[1][0]
    item = [
        float(model.answer_logprobs([blank], [text], context.question)[0])
        for blank in model.noise_images(2, 0)
    ]
    assert result[1, 0] == pytest.approx(np.log(np.mean(np.exp(item))), abs=1e-6)
    with pytest.raises(InputError, match="fake cannot give 'vqa'"):
        score_priors(ScoringContext(Fake()), frame, "vqa")
    with pytest.raises(InputError, match="'itm' is no likelihood"):
        score_priors(ScoringContext(Fake()), frame, "itm")


def photographs(folder: Path, count: int, start: int = 100) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(start, start + count):
        Image.new("RGB", (8, 8), (i % 256, 7, i // 256)).save(folder / f"{i}.png")


def test_images_of_a_folder(tmp_path: Path) -> None:
    photographs(tmp_path / "a", 4)
    photographs(tmp_path / "a" / "more", 2, start=200)
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    frame, examples = build_frame(pairs(3)), pairs(3)
    result = score_priors(
        ScoringContext(Fake(), prior=FolderImages(tmp_path / "a")), frame, "lm", examples
    )
    shown = [Image.open(path) for path in sorted((tmp_path / "a").rglob("*.png"))]
    assert frame.texts is not None
    for k, texts in enumerate(frame.texts):
        for j, text in enumerate(texts):
            item = [np.exp(plain_lm(Fake(), image, text)) for image in shown]
            assert result[k, j] == pytest.approx(np.log(np.mean(item)), abs=1e-6)
    model = Fake()
    score_priors(
        ScoringContext(model, prior=FolderImages(tmp_path / "a", 2)), frame, "lm", examples
    )
    assert len({image for image, _ in model.pairs}) == 2
    again = Fake()
    score_priors(
        ScoringContext(again, prior=FolderImages(tmp_path / "a", 2)), frame, "lm", examples
    )
    assert again.pairs == model.pairs
    other = Fake()
    drawn = FolderImages(tmp_path / "a", 2, seed=1)
    score_priors(ScoringContext(other, prior=drawn), frame, "lm", examples)
    assert other.pairs != model.pairs


def test_unusable_prior_folders(tmp_path: Path) -> None:
    frame, examples = build_frame(pairs(3)), pairs(3)

    def refused(prior: FolderImages, examples: list[Example] = examples) -> str:
        with pytest.raises(InputError) as error:
            score_priors(ScoringContext(Fake(), prior=prior), build_frame(examples), "lm", examples)
        return str(error.value)

    assert "is no folder of images" in refused(FolderImages(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    assert "holds no images" in refused(FolderImages(tmp_path / "empty"))
    photographs(tmp_path / "few", 2)
    assert "holds 2 images, and prior needs 3" in refused(FolderImages(tmp_path / "few", 3))
    photographs(tmp_path / "broken", 2)
    (tmp_path / "broken" / "x.png").write_bytes(b"no image at all")
    assert "the prior cannot be made" in refused(FolderImages(tmp_path / "broken"))
    native = tmp_path / "few" / "100.png"
    with_own = [replace(examples[0], images=(ImageRef("own", native), patch(1))), *examples[1:]]
    message = refused(FolderImages(tmp_path / "few"), with_own)
    assert "100.png" in message
    assert "is also an image of the examples" in message
    assert len(frame) == 3


def test_a_generated_image_saved_to_a_file_is_still_the_same_image(tmp_path: Path) -> None:
    examples = pairs(3)
    photographs(tmp_path / "a", 3)
    context = ScoringContext(Fake(), prior=FolderImages(tmp_path / "a"))
    score_priors(context, build_frame(examples), "lm", examples)
    source = examples[1].images[1].source
    assert source is not None
    type(source).open_many([source])[0].save(tmp_path / "a" / "saved.png")
    with pytest.raises(InputError, match=r"saved\.png.*also an image of the examples"):
        score_priors(context, build_frame(examples), "lm", examples)


def test_other_examples_images() -> None:
    examples = pairs(5)
    model = Fake()
    result = score_priors(
        ScoringContext(model, prior=OtherImages(3)), build_frame(examples), "lm", examples
    )
    lm = score_examples(ScoringContext(Fake()), "lm", examples).scores
    plan = plan_examples(examples)
    drawn = draw_other_images(plan, 3, 0)
    native = {(i, j) for i, j in plan.pairs.tolist()}
    assert not native & {(i, j) for i, j in drawn.tolist()}
    position = {text: j for j, text in enumerate(plan.texts)}
    for k, example in enumerate(examples):
        for j, text in enumerate(example.texts):
            images = drawn[drawn[:, 1] == position[text], 0]
            assert len(set(images.tolist())) == 3
            refs = [plan.images[i] for i in images]
            shown = [type(ref.source).open_many([ref.source])[0] for ref in refs]
            item = [plain_lm(Fake(), image, text) for image in shown]
            assert result[k, j] == pytest.approx(float(log_prior(item)), abs=1e-6)
    assert lm.shape == (5, 2, 2)


@given(st.integers(0, 2**20), st.integers(2, 9), st.integers(1, 4))
def test_prior_images_are_never_of_the_example(seed: int, size: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    examples = [
        Example(
            str(k), (patch(int(rng.integers(12))), patch(int(rng.integers(12, 24)))),
            (f"word {rng.integers(9)}", f"other {k}"), diagonal_match(2),
        )
        for k in range(size)
    ]  # fmt: skip
    plan = plan_examples(examples)
    native: dict[str, set[str]] = {}
    for example in examples:
        for text in example.texts:
            native.setdefault(text, set()).update(ref.key for ref in example.images)
    every = {ref.key for ref in plan.images}
    if min(len(every - images) for images in native.values()) < count:
        with pytest.raises(InputError, match=f"needs {count} images"):
            draw_other_images(plan, count, seed)
        return
    drawn = draw_other_images(plan, count, seed)
    counted = np.bincount(drawn[:, 1], minlength=len(plan.texts))
    assert (counted == count).all()
    for i, j in drawn.tolist():
        assert plan.images[i].key not in native[plan.texts[j]]


def test_too_few_other_images() -> None:
    for examples, prior, message in (
        (pairs(1), OtherImages(), "needs some images of other examples, and 'a patch 0' has none"),
        (pairs(3), OtherImages(5), "needs 5 images of other examples, and 'a patch 0' has 4"),
        (choices(), OtherImages(), "'the same for all' has none"),
    ):
        with pytest.raises(InputError, match=message):
            score_priors(ScoringContext(Fake(), prior=prior), build_frame(examples), "lm", examples)
    with pytest.raises(InputError, match="there are none here"):
        compute_priors(ScoringContext(Fake(), prior=OtherImages()), ["a"])


def test_prior_scores_are_shared_with_the_examples(tmp_path: Path) -> None:
    examples, store = pairs(4), AnswerStore(tmp_path)
    score_priors(
        ScoringContext(Fake(), store, prior=OtherImages(2)), build_frame(examples), "lm", examples
    )
    model = Fake()
    swapped = [
        replace(one, id=f"{one.id} too", images=other.images)
        for one, other in zip(examples, [*examples[1:], examples[0]], strict=True)
    ]
    score_examples(ScoringContext(model, store), "lm", swapped)
    assert len(model.pairs) < 16
