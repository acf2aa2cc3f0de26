"""Chat replies: each distinct prompt is sent once, and its reply stored word for word."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from contrapose.data import Example, ImageRef, in_memory_benchmark, open_image
from contrapose.data.examples import single_match
from contrapose.data.video_clips import VideoRef
from contrapose.engine import AnswerStore, ScoringContext
from contrapose.engine.chat import ReplyTable, collect_replies
from contrapose.engine.chat_prompts import EQBEN, SUGARCREPE, YES_NO
from contrapose.engine.columns import ModelError
from contrapose.engine.videos import describe_videos
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import FrameTiming, Prompt, Reply
from contrapose.models.capabilities import mark_arrived
from contrapose.models.endpoint import EndpointError
from contrapose.models.hf.vlm import forward
from tests.chatting import Chatter, knows, likes_the_first
from tests.fakes import Tower, choices, pairs, patch
from tests.models.hf.vlm.small_vlm import FAMILIES, opened
from tests.videos import encode_video, frame_number, gray_frames


def ask(context: ScoringContext, examples: Sequence[Example] | None = None) -> ReplyTable:
    return collect_replies(context, EQBEN, examples or pairs())


def test_each_distinct_prompt_is_sent_once() -> None:
    model = Chatter()
    twice = [
        *pairs(5),
        Example("again", pairs(1)[0].images, pairs(1)[0].texts, pairs(1)[0].match, {}),
    ]
    context = ScoringContext(model)
    sheet = ask(context, twice)
    assert len(model.asked) == sheet.usage.questions == 20
    assert len(sheet.chosen) == 24
    assert set(sheet.chosen.tolist()) == {0}
    assert sheet.usage.tokens_in == 200
    assert sheet.usage.tokens_out == 40
    assert sheet.usage.cost is None
    ask(context, twice)
    assert len(model.asked) == 20


def test_rows_follow_the_order_of_the_examples() -> None:
    sheet = collect_replies(ScoringContext(Chatter(likes_the_first)), SUGARCREPE, choices(3))
    assert sheet.example.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert sheet.order.tolist() == [0, 1, 2] * 3
    # The first caption of a turn: the right one, then each of those before it in the circle.
    assert sheet.chosen.tolist() == [0, 2, 1] * 3
    assert set(sheet.replies) == {"(1)"}
    assert all(prompt.startswith("Which caption") for prompt in sheet.prompts)


def test_replies_do_not_depend_on_the_batch_size() -> None:
    result = [ask(ScoringContext(Chatter(), batch_size=size)).replies for size in (1, 7, 100)]
    assert result[0] == result[1] == result[2]


def test_replies_are_stored_as_text(tmp_path: Path) -> None:
    ask(ScoringContext(Chatter(), AnswerStore(tmp_path)))
    (part,) = tmp_path.rglob("*.parquet")
    table = pq.read_table(part).to_pydict()
    assert set(table["reply"]) == {"1;2", "2;1"}
    assert {prompt[:30] for prompt in table["prompt"]} == {EQBEN.text[:30]}
    assert set(table["tokens_in"]) == {10}
    assert set(table["score"]) == {"chat:reply"}
    again = Chatter(name="other")
    sheet = ask(ScoringContext(again, AnswerStore(tmp_path)))
    assert again.asked == []
    assert set(sheet.chosen.tolist()) == {0}


def test_a_killed_run_resumes(tmp_path: Path) -> None:
    killed = Chatter(after=5)
    with pytest.raises(KeyboardInterrupt):
        ask(ScoringContext(killed, AnswerStore(tmp_path)))
    rest = Chatter()
    sheet = ask(ScoringContext(rest, AnswerStore(tmp_path)))
    assert len(killed.asked) == 20
    assert len(rest.asked) == 48 - 20
    assert sheet.replies == ask(ScoringContext(Chatter())).replies


def test_cache_use_only_and_refresh(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"48 of 48 .*not in the cache"):
        ask(ScoringContext(Chatter(), AnswerStore(tmp_path), cache_use="only"))
    ask(ScoringContext(Chatter(likes_the_first), AnswerStore(tmp_path)))
    newer = Chatter(knows)
    assert set(
        ask(ScoringContext(newer, AnswerStore(tmp_path), cache_use="refresh")).chosen.tolist()
    ) == {0}
    assert len(newer.asked) == 48
    assert set(
        ask(ScoringContext(Chatter(), AnswerStore(tmp_path), cache_use="only")).chosen.tolist()
    ) == {0}


@dataclass
class Stopping(Chatter):
    """Answers two of a batch, then has no more; gives these two again."""

    error: type[BaseException] = EndpointError
    kept: dict[str, Reply] = field(default_factory=dict)

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        if len(prompts) == 1:
            return [self.kept.pop(prompts[0].text)]
        came = super().reply(prompts[:2])
        self.kept = {one.text: reply for one, reply in zip(prompts[:2], came, strict=True)}
        stop = self.error("the endpoint is down.")
        mark_arrived(stop, (0, 1))
        raise stop


@pytest.mark.parametrize("error", [EndpointError, KeyboardInterrupt])
def test_replies_before_an_endpoint_stops_are_stored(
    tmp_path: Path, error: type[BaseException]
) -> None:
    first = Stopping(error=error)
    with pytest.raises(error, match="is down"):
        ask(ScoringContext(first, AnswerStore(tmp_path)))
    rest = Chatter()
    sheet = ask(ScoringContext(rest, AnswerStore(tmp_path)))
    assert len(rest.asked) == 46
    assert sheet.replies == ask(ScoringContext(Chatter())).replies


class Strange(Chatter):
    give: Callable[[Sequence[Prompt]], list[Reply]]

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        return self.give(prompts)


def test_invalid_replies_end_the_run() -> None:
    strange = Strange()
    strange.give = lambda prompts: [Reply("1;2")]
    with pytest.raises(ModelError, match="chatter gave 1 replies to 4 prompts"):
        ask(ScoringContext(strange))
    strange.give = lambda prompts: [Reply(None) for _ in prompts]  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="gave 4 replies"):
        ask(ScoringContext(strange))
    with pytest.raises(InputError, match="tower cannot chat"):
        ask(ScoringContext(Tower()))


def test_a_refused_prompt_skips_its_example() -> None:
    def refuses(prompts: Sequence[Prompt]) -> list[Reply]:
        if any("patch 6" in prompt.text for prompt in prompts):
            raise InputError("not that one.")
        return [Reply("1;2") for _ in prompts]

    strange = Strange()
    strange.give = refuses
    sheet = ask(ScoringContext(strange))
    assert list(sheet.skipped) == ["p3"]
    assert sheet.skipped["p3"].detail == "not that one"
    assert len(sheet.frame) == 11
    assert len(sheet.chosen) == 44


def test_unreadable_images_skip_their_examples(tmp_path: Path) -> None:
    there, gone = tmp_path / "there.png", tmp_path / "gone.png"
    Image.new("RGB", (4, 4), "red").save(there)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    texts = ("a patch 0", "some patch 1 here")
    examples = [
        *pairs(2),
        Example("gone", (ImageRef("a", there), ImageRef("b", gone)), texts, pairs(1)[0].match, {}),
        Example("bad", (ImageRef("a", there), ImageRef("c", broken)), texts, pairs(1)[0].match, {}),
    ]
    sheet = ask(ScoringContext(Chatter(likes_the_first)), examples)
    assert sheet.frame.ids == ("p0", "p1")
    assert set(sheet.skipped) == {"gone", "bad"}
    assert "not there" in sheet.skipped["gone"].reason
    assert "not an image" in sheet.skipped["bad"].reason
    shutil.copy(there, gone)
    assert len(ask(ScoringContext(Chatter(likes_the_first)), examples).frame) == 3


def test_examples_of_another_shape_are_skipped() -> None:
    other = Example("one", (patch(0),), ("a patch 0", "b"), single_match(2, 0), {})
    sheet = ask(ScoringContext(Chatter()), [other, *pairs(1)])
    assert sheet.frame.ids == ("p0",)
    assert sheet.skipped["one"].reason == "it is not two images with one caption each"
    none = ask(ScoringContext(Chatter()), [other])
    assert len(none.frame) == none.usage.questions == 0


@pytest.mark.parametrize("cuts", [False, True])
def test_long_prompts_are_skipped_not_truncated(cuts: bool) -> None:
    class Short(Chatter):
        context = len(EQBEN.fill(pairs(1)[0].texts).split())

        def token_counts(self, texts: Sequence[str]) -> list[int]:
            return [len(text.split()) for text in texts]

    model = Short()
    model.cuts = cuts  # type: ignore[attr-defined]
    longer = Example(
        "long", pairs(1)[0].images, ("a patch 0 of many words", "some patch 1 here"),
        pairs(1)[0].match, {},
    )  # fmt: skip
    sheet = ask(ScoringContext(model), [*pairs(3), longer])
    assert sheet.frame.ids == ("p0", "p1", "p2")
    assert sheet.skipped["long"].reason == "the prompt is longer than the model reads"
    assert f"reads {model.context}" in sheet.skipped["long"].detail


def test_usage_and_cost() -> None:
    model = Chatter()
    model.prices = (2.0, 10.0)  # type: ignore[attr-defined]
    sheet = ask(ScoringContext(model), pairs(5))
    assert sheet.usage.cost == pytest.approx((200 * 2 + 40 * 10) / 1e6)


def test_replies_of_a_local_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_REPLY_TOKENS", 6)
    FAMILIES["llava"](tmp_path)
    model = opened(tmp_path)
    examples = [
        Example(f"e{i}", (patch(i),), ("a cat", "a dog"), single_match(2, 0), {}) for i in range(4)
    ]
    sheet = collect_replies(ScoringContext(model, batch_size=2), SUGARCREPE, examples)
    images = [open_image(examples[k].images[0]) for k in sheet.example.tolist()]
    direct = model.reply(
        [Prompt((image,), text) for image, text in zip(images, sheet.prompts, strict=True)]
    )
    assert sheet.replies == tuple(reply.text for reply in direct)
    assert len(set(sheet.replies)) > 1
    assert sheet.usage.questions == 8
    assert sheet.usage.tokens_in == sum(reply.tokens_in for reply in direct)
    assert sheet.usage.uncounted == 0


@dataclass
class FilmChatter:
    """Chat model: it says the numbers of the frames that it is shown."""

    name: str = "film chatter"
    fingerprint: str = "film-1"
    batch_size: int = 4
    asked: list[Prompt] = field(default_factory=list)

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        self.asked += prompts
        for prompt in prompts:
            assert all(isinstance(image, Image.Image) for image in prompt.images)
        return [Reply("(1)") for _ in prompts]


@dataclass
class FilmWatcher(FilmChatter):
    """Chat model with a video input."""

    name: str = "film watcher"
    max_frames: int = 4
    video_input: str = "video"

    def prepare_video(self, frames: Sequence[Image.Image], timing: FrameTiming) -> torch.Tensor:
        return torch.tensor([[[float(frame_number(frame))]] for frame in frames])

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        self.asked += prompts
        return [Reply("(1)") for _ in prompts]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("films")
    encode_video(folder / "a.mp4", gray_frames(12))
    return folder


def film(folder: Path, name: str = "a", texts: Sequence[str] = ("an image", "b")) -> Example:
    clip = VideoRef(folder / f"{name}.mp4", frames=3, start=0.0, end=0.6)
    return Example(name, (clip,), tuple(texts), single_match(len(texts), 0), {})


def test_questions_about_videos_show_frames_as_images(films: Path, tmp_path: Path) -> None:
    model = FilmChatter()
    examples = [film(films), film(films, "gone"), *choices(1)]
    store = AnswerStore(tmp_path)
    sheet = collect_replies(ScoringContext(model, store), SUGARCREPE, examples)
    assert sheet.frame.ids == ("a", "c0")
    assert sheet.skipped["gone"].reason == "the video is not there"
    of_film = [prompt for prompt in model.asked if len(prompt.images) > 1]
    assert len(of_film) == 2
    for prompt in of_film:
        assert [frame_number(image) for image in prompt.images] == [1, 3, 5]  # type: ignore[arg-type]
        assert prompt.text.startswith("These are frames of a video, in order.\nWhich caption best")
        assert "describes the video?" in prompt.text
        assert ") an image\n" in prompt.text  # the words of captions stay
    assert all("the image?" in one.text for one in model.asked if len(one.images) == 1)
    collect_replies(ScoringContext(model, AnswerStore(tmp_path)), SUGARCREPE, examples)
    assert len(model.asked) == 5
    watcher = FilmWatcher()  # the same weights, as it were: another form is another question
    collect_replies(ScoringContext(watcher, AnswerStore(tmp_path)), SUGARCREPE, [film(films)])
    assert [prompt.images[0].tolist() for prompt in watcher.asked] == [[[[1]], [[3]], [[5]]]] * 2  # type: ignore[union-attr]
    assert watcher.asked[0].text.startswith("Which caption best describes the video?")
    assert "by its video input" in describe_videos(watcher, [[film(films)]], chat=True)
    assert "as images of one turn" in describe_videos(model, [[film(films)]], chat=True)
    few = FilmWatcher(max_frames=2)  # more frames than its input takes
    collect_replies(ScoringContext(few), SUGARCREPE, [film(films)])
    assert len(few.asked[0].images) == 3


def test_yes_no_questions_about_videos(films: Path) -> None:
    model = FilmChatter()
    for text in ("Is it dark?", "a gray image"):
        collect_replies(ScoringContext(model), YES_NO, [film(films, texts=[text])])
    assert model.asked[0].text.endswith("in order.\nIs it dark? Please answer yes or no.")
    assert 'Does this video show "a gray image"?' in model.asked[1].text


def test_videos_do_not_stand_side_by_side(films: Path) -> None:
    one = film(films)
    both = replace(one, images=one.images * 2, match=((True, False), (False, True)))
    sheet = collect_replies(ScoringContext(FilmChatter()), EQBEN, [both])
    assert "cannot stand beside" in sheet.skipped["a"].reason


def test_which_questions_about_videos_fit(films: Path) -> None:
    def ask_films(example: Example, score: str, **options: Any) -> Any:
        benchmark = in_memory_benchmark([example], name="films")
        return evaluate_models([FilmChatter()], EvalRequest((benchmark,), (score,), **options))

    one = film(films)
    (run,) = ask_films(one, "chat")
    assert any("3 frames of a video at once, as images" in note for note in run.results.notes)
    with pytest.raises(InputError, match="no mean"):
        ask_films(one, "chat", frames=(2, True))
    both = replace(one, images=one.images * 2, match=((True, False), (False, True)))
    with pytest.raises(InputError, match="ask chat:sugarcrepe"):
        ask_films(both, "chat:eqben")
    assert ask_films(both, "chat:sugarcrepe")
