"""Scores of videos: the mean over frames, or one score by models that read several frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import Example
from contrapose.data.video_clips import VideoRef
from contrapose.engine import AnswerStore, OtherImages, ScoringContext, score_examples, score_priors
from contrapose.engine.videos import describe_videos, expand_videos
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import VideoReader
from tests.fakes import Fake, choices
from tests.videos import encode_video, gray_frames


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("videos")
    encode_video(path / "a.mp4", gray_frames(20))
    encode_video(path / "b.mp4", gray_frames(12)[::-1])
    (path / "empty.mp4").touch()
    return path


TEXTS = ("it grows light", "it grows dark")


def videos(folder: Path, *names: str, frames: int = 3) -> list[Example]:
    return [
        Example(
            name, (VideoRef(folder / f"{name}.mp4", frames=frames),), TEXTS, ((True, False),), {}
        )
        for name in names
    ]


def apart(folder: Path, name: str, frames: int = 3) -> Example:
    """Example whose images are the frames of a video."""
    (example,) = expand_videos(Fake(), videos(folder, name, frames=frames)).examples
    return example


@pytest.mark.parametrize("score", ["itc", "itm", "lm"])
def test_the_score_is_the_mean_over_frames(score: str, folder: Path) -> None:
    both = Example(
        "both",
        (VideoRef(folder / "b.mp4", frames=2), VideoRef(folder / "a.mp4", frames=5)),
        TEXTS,
        ((True, False), (False, True)),
    )
    answers = score_examples(ScoringContext(Fake()), score, [*videos(folder, "a"), both])
    assert answers.scores.shape == (2, 2, 2)
    for row, wanted in (
        (answers.scores[0, 0], apart(folder, "a")),
        (answers.scores[1, 0], apart(folder, "b", 2)),
        (answers.scores[1, 1], apart(folder, "a", 5)),
    ):
        frames = score_examples(ScoringContext(Fake()), score, [wanted]).scores[0]
        assert row == pytest.approx(frames.mean(axis=0), abs=1e-12)
    assert not answers.frame.present[0, 1].any()


def test_frames_are_stored_like_images(folder: Path, tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    first = score_examples(ScoringContext(Fake(), store), "itm", videos(folder, "a", "b"))
    model = Fake()
    again = score_examples(
        ScoringContext(model, AnswerStore(tmp_path)), "itm", videos(folder, "a", "b")
    )
    assert np.array_equal(first.scores, again.scores)
    assert model.pairs == []


def test_a_video_that_cannot_be_read_is_skipped(folder: Path) -> None:
    late = Example("late", (VideoRef(folder / "a.mp4", times=(0.1, 9.0)),), TEXTS, ((True, False),))
    examples = [*videos(folder, "a", "empty", "none"), late]
    answers = score_examples(ScoringContext(Fake()), "itm", examples)
    assert {name: skip.reason for name, skip in answers.skipped.items()} == {
        "empty": "the video is empty: a video of 0 bytes",
        "none": "the video is not there",
        "late": "the video has no such frame",
    }
    assert np.isfinite(answers.scores[0]).all()


def test_priors_of_other_videos(folder: Path) -> None:
    examples = [
        replace(example, texts=(f"{example.id} x", f"{example.id} y"))
        for example in videos(folder, "a", "b", frames=2)
    ]
    context = ScoringContext(Fake(), prior=OtherImages(2))
    frame = score_examples(context, "lm", examples).frame
    priors = score_priors(context, frame, "lm", examples)
    other = replace(apart(folder, "b", 2), texts=examples[0].texts)
    likelihoods = score_examples(ScoringContext(Fake()), "lm", [other]).scores[0]
    assert priors[0] == pytest.approx(np.log(np.exp(likelihoods).mean(axis=0)))


@dataclass
class FilmReader(Fake):
    """Model that reads up to four frames at once: it sees the brightness of each."""

    max_frames: int = 4

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        return torch.tensor([[[image.convert("L").resize((1, 1)).getpixel((0, 0))]]])

    def prepare_video(self, frames: Sequence[Image.Image]) -> torch.Tensor:
        return torch.cat([self.prepare_image(frame) for frame in frames])

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> torch.Tensor:
        self.pairs += [(str(len(image)), text) for image, text in zip(images, texts, strict=True)]
        rise = torch.tensor([float(image[-1].sum() - image[0].sum()) for image in images])
        return rise * torch.tensor([1.0 if "light" in text else -1.0 for text in texts])


def test_a_model_that_reads_several_frames_gets_them_at_once(folder: Path) -> None:
    model = FilmReader()
    assert isinstance(model, VideoReader)
    answers = score_examples(ScoringContext(model), "itm", videos(folder, "a", "b"))
    assert {frames for frames, _ in model.pairs} == {"3"}
    assert answers.scores[0, 0, 0] > 0 > answers.scores[1, 0, 0]  # one grows light, one dark
    assert "at once" in describe_videos(model, videos(folder, "a"))
    few = FilmReader(max_frames=2)
    score_examples(ScoringContext(few), "itm", videos(folder, "a"))
    assert {frames for frames, _ in few.pairs} == {"1"}
    assert "mean of the scores of 3 frames" in describe_videos(few, videos(folder, "a"))
    assert describe_videos(few, choices()) == ""
    empty = score_examples(ScoringContext(model), "itm", videos(folder, "a", "empty"))
    assert list(empty.skipped) == ["empty"]


def test_evaluation_with_another_number_of_frames(folder: Path) -> None:
    request = EvalRequest((videos(folder, "a", "b"),), ("itm",), resamples=100)
    (run,) = evaluate_models([FilmReader()], request)
    assert run.results.metrics["accuracy"].value == 1 / 2
    assert run.spec["videos"] == run.results.notes[0] == "fake reads 3 frames of a video at once"
    model = FilmReader()
    (run,) = evaluate_models([model], replace(request, frames=(2, True)))
    assert {frames for frames, _ in model.pairs} == {"1"}
    assert "mean of the scores of 2 frames" in run.spec["videos"]
    with pytest.raises(InputError, match="frames is for videos"):
        evaluate_models([Fake()], EvalRequest((choices(),), ("itm",), frames=(2, False)))
