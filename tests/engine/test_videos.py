"""Scores of videos: the mean over frames, or one score by models that read several frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import Example, Gallery, ImageRef
from contrapose.data.video_clips import VideoClip, VideoRef
from contrapose.engine import (
    AnswerStore,
    OtherImages,
    ScoringContext,
    score_examples,
    score_gallery,
    score_priors,
)
from contrapose.engine.batches import score_values
from contrapose.engine.context import ScoreRequest
from contrapose.engine.executor import LocalExecutor
from contrapose.engine.plan import plan_examples
from contrapose.engine.requests import build_pair_request
from contrapose.engine.videos import describe_videos, expand_videos
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import FrameTiming, VideoReader
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


@pytest.mark.parametrize("score", ["itc", "itm"])
def test_galleries_of_videos(score: str, folder: Path) -> None:
    clips = [VideoRef(folder / f"{name}.mp4", frames=n) for name, n in (("a", 3), ("b", 2))]
    still = apart(folder, "a").images[0]
    gone = VideoRef(folder / "none.mp4")
    images = (clips[0], still, gone, clips[1])
    gallery = Gallery("films", images, TEXTS, ((0, 0), (1, 0), (2, 1), (3, 1)))
    matrix = score_gallery(ScoringContext(Fake()), score, gallery)
    assert set(matrix.skipped_rows) == {2}
    assert matrix.skipped_rows[2].reason == "the video is not there"
    for i in (0, 1, 3):
        example = Example("x", (images[i],), TEXTS, ((True, False),))
        wanted = score_examples(ScoringContext(Fake()), score, [example]).scores[0, 0]
        assert matrix.scores[i] == pytest.approx(wanted, abs=1e-6)
    reader = FilmReader(video_input="video")
    pairs = Gallery("films", tuple(clips), TEXTS, ((0, 0), (1, 1)))
    score_gallery(ScoringContext(reader), "itm", pairs)
    assert {frames for frames, _ in reader.pairs} == {"3", "2"}
    note = describe_videos(reader, [], pairs.images)
    assert "2 to 3 frames of a video at once, by its video input" in note


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
    video_input: str = "images"
    frame_count: int = 0
    timings: list[FrameTiming] = field(default_factory=list)

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        return torch.tensor([[[image.convert("L").resize((1, 1)).getpixel((0, 0))]]])

    def prepare_video(self, frames: Sequence[Image.Image], timing: FrameTiming) -> torch.Tensor:
        self.timings.append(timing)
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
    assert "at once" in describe_videos(model, [videos(folder, "a")])
    few = FilmReader(max_frames=2)
    score_examples(ScoringContext(few), "itm", videos(folder, "a"))
    assert {frames for frames, _ in few.pairs} == {"1"}
    assert "mean of the scores of 3 frames" in describe_videos(few, [videos(folder, "a")])
    assert describe_videos(few, [choices()]) == ""
    turns = FilmReader(video_input="images", max_frames=2)
    assert "reads at most 2 as images of one turn" in describe_videos(turns, [videos(folder, "a")])
    empty = score_examples(ScoringContext(model), "itm", videos(folder, "a", "empty"))
    assert list(empty.skipped) == ["empty"]


def test_forms_of_a_video_are_stored_apart(folder: Path, tmp_path: Path) -> None:
    def score(model: FilmReader, *examples: Example) -> Any:
        context = ScoringContext(model, AnswerStore(tmp_path))
        return score_examples(context, "itm", examples or videos(folder, "a")).scores[0, 0, 0]

    score(FilmReader())
    for model in (FilmReader(video_input="video"), FilmReader(max_frames=0)):
        score(model)
        assert model.pairs
    for again in (FilmReader(), FilmReader(video_input="video"), FilmReader(max_frames=0)):
        score(again)
        assert again.pairs == []
    (fewer,) = videos(folder, "a", frames=2)
    span = replace(fewer, images=(VideoRef(folder / "a.mp4", frames=3, start=0.0, end=1.0),))
    times = replace(fewer, images=(VideoRef(folder / "a.mp4", times=(1 / 3, 1.0, 5 / 3)),))
    for other in (fewer, span):
        model = FilmReader(video_input="video")
        score(model, other)
        assert model.pairs
    model = FilmReader(video_input="video")
    score(model, times)  # the frames that n uniform ones are: the same times, the same score
    assert model.pairs == []


def test_times_of_frames_count_from_the_beginning_of_the_clip(folder: Path) -> None:
    model = FilmReader(video_input="video")
    (example,) = videos(folder, "a")
    span = VideoRef(folder / "a.mp4", frames=2, start=0.5, end=1.5)
    numbers = VideoRef(folder / "a.mp4", frames=2, start=5, end=15, unit="frames")
    for clip in (span, numbers):
        score_examples(ScoringContext(model), "itm", [replace(example, images=(clip,))])
    by_seconds, by_numbers = model.timings
    assert by_seconds.seconds == pytest.approx((0.25, 0.75))
    assert (by_seconds.duration, by_seconds.fps) == pytest.approx((1.0, 10.0))
    assert by_seconds.indices == by_numbers.indices == [2, 7]
    assert by_seconds.total == by_numbers.total == 10


def test_a_model_of_one_number_of_frames(folder: Path) -> None:
    model = FilmReader(video_input="video", frame_count=4)
    (example,) = videos(folder, "a")
    any_number = replace(example, images=(VideoRef(folder / "a.mp4"),))
    score_examples(ScoringContext(model), "itm", [any_number])
    assert {frames for frames, _ in model.pairs} == {"4"}
    words = describe_videos(model, [[any_number]])
    assert "4 frames of a video at once, by its video input" in words
    with pytest.raises(InputError, match=r"4 frames of a video, and no other number.*frames=4"):
        score_examples(ScoringContext(model), "itm", [example])
    given = replace(example, images=(VideoRef(folder / "a.mp4", times=[0.5, 1]),))
    with pytest.raises(InputError, match=r"no other number: pass frames=.2:mean. to score"):
        score_examples(ScoringContext(model), "itm", [given])  # frames=4 would leave the times


def test_a_video_input_that_cannot_be_used_ends_the_run(folder: Path) -> None:
    model = FilmReader(video_input="video")
    vars(model)["video_obstacle"] = "it needs a library."
    with pytest.raises(InputError, match="needs a library"):
        score_examples(ScoringContext(model), "itm", videos(folder, "a"))
    alone = [
        replace(example, images=(ImageRef("a", source=replace(clip, alone=True)),))
        for example in videos(folder, "a")
        if isinstance(clip := example.images[0].source, VideoClip)
    ]
    assert np.isfinite(score_examples(ScoringContext(model), "itm", alone).scores).all()


def test_few_videos_are_prepared_ahead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[int] = []
    answered: list[int] = []

    class Ahead(FilmReader):
        def match(self, images: Sequence[Any], texts: Sequence[str]) -> torch.Tensor:
            answered.append(len(submitted))
            return super().match(images, texts)

    size = ScoreRequest.input_size

    def input_size(request: ScoreRequest, key: int) -> int:
        submitted.append(key)
        return size(request, key)

    monkeypatch.setattr(ScoreRequest, "input_size", input_size)
    clips = tuple(VideoRef(folder / "a.mp4", times=(0.0, 0.1 * i)) for i in range(1, 9))
    examples = [Example(clip.key, (clip,), ("light",), ((True,),)) for clip in clips]
    context = ScoringContext(
        Ahead(video_input="video"), batch_size=1, executor=LocalExecutor(ahead=4)
    )
    plan = plan_examples(expand_videos(context.model, examples).examples)
    score_values(build_pair_request(context, "itm", plan))
    assert answered == [3, 4, 5, 6, 7, 8, 8, 8]  # one is scored, two clips of two frames wait


def test_a_video_of_one_frame(tmp_path: Path) -> None:
    encode_video(tmp_path / "still.mp4", gray_frames(1))
    model = FilmReader(video_input="video")
    (example,) = videos(tmp_path, "still", frames=2)
    assert np.isfinite(score_examples(ScoringContext(model), "itm", [example]).scores).all()
    assert model.timings[0].indices == [0, 0]
    assert model.timings[0].total == 1
    (single,) = videos(tmp_path, "still", frames=1)
    assert describe_videos(model, [[single]]).startswith("fake reads 1 frame of a video")
    assert describe_videos(Fake(), [[single]]).endswith("that of 1 frame")


def test_evaluation_with_another_number_of_frames(folder: Path) -> None:
    request = EvalRequest((videos(folder, "a", "b"),), ("itm",), resamples=100)
    (run,) = evaluate_models([FilmReader()], request)
    assert run.results.metrics["accuracy"].value == 1 / 2
    assert (
        run.spec["videos"]
        == run.results.notes[0]
        == ("fake reads 3 frames of a video at once, as images of one turn")
    )
    model = FilmReader()
    (run,) = evaluate_models([model], replace(request, frames=(2, True)))
    assert {frames for frames, _ in model.pairs} == {"1"}
    assert "mean of the scores of 2 frames" in run.spec["videos"]
    with pytest.raises(InputError, match="frames is for videos"):
        evaluate_models([Fake()], EvalRequest((choices(),), ("itm",), frames=(2, False)))
