"""Shards of an evaluation: together they score what one run scores, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from PIL import Image

import contrapose as cp
from contrapose.arrays import Ragged
from contrapose.data import ImageRef, registry
from contrapose.engine import (
    FolderImages,
    NoiseImages,
    OtherImages,
    Prior,
    ScoringContext,
    parse_shard,
)
from contrapose.errors import DamageWarning, InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import Model
from contrapose.results import write_run
from tests.chatting import Chatter
from tests.engine.models import Picky, Seeing
from tests.fakes import Fake, choices, gallery, made, number, pairs, patches, seen
from tests.store_urls import STORES, open_url


@dataclass
class Grainy(Fake):
    """A model whose numbers depend slightly on the batch, as those of real models do."""

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        return super().match(images, texts) + 1e-6 * len(texts)

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return super().embed_texts(texts) + 1e-6 * len(texts)

    def embed_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return super().embed_images(images) + 1e-6 * len(images)

    def token_logprobs(self, images: Any, texts: Sequence[str]) -> Ragged:
        ragged = super().token_logprobs(images, texts)
        return Ragged(ragged.values - 1e-6 * len(texts), ragged.offsets)


@dataclass
class Shifted(Grainy):
    """A model whose numbers change under the same fingerprint, as those of a served model may."""

    shift: float = 0.0

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        return super().match(images, texts) * (1 - 2 * self.shift)

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        words = [f"{text} {self.shift}" if self.shift else text for text in texts]
        return super().embed_texts(words)


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torn = tmp_path / "torn.png"
    torn.write_bytes(b"\x89PNG nothing")
    holes = [
        replace(example, images=(ImageRef("torn", torn),)) if i == 2 else example
        for i, example in enumerate(choices())
    ]
    album = gallery()
    entries = {
        "album": made(
            "album",
            "retrieval",
            "N × M",
            replace(album, images=(*album.images[:-1], ImageRef("torn", torn))),
        ),
        "patches": patches(),
        "plain": made("plain", "pairs", "2 × 2", pairs()),
        "holes": made("holes", "choice", "1 × 3", holes),
    }
    monkeypatch.setattr(registry, "_plugins", lambda: entries)


def contents(run: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in run.iterdir() if file.name != "spec.json"}


def check(folder: Path, model: Callable[[], Model], count: int, **options: Any) -> list[Any]:
    """Compare an evaluation in shards with one in one piece; return the shards' reports."""

    def request(cache: str, shard: tuple[int, int] | None = None, **more: Any) -> EvalRequest:
        values: dict[str, Any] = {"benchmarks": ("patches",), "batch_size": 5, **options, **more}
        return EvalRequest(
            resamples=200, tokens=True, cache=folder / cache, shard=parse_shard(shard), **values
        )

    write_run(evaluate_models([model()], request("one")), folder / "run-one")
    reports = []
    for i in range(count, 0, -1):
        asked = request("shards", (i, count))
        assert evaluate_models([model()], asked) == []
        assert asked.shard is not None
        reports.append(asked.shard.report())
    runs = evaluate_models([model()], request("shards", cache_use="only"))
    write_run(runs, folder / "run-shards")
    assert contents(folder / "run-shards") == contents(folder / "run-one")
    return reports


@pytest.mark.parametrize("count", [1, 3])
def test_vectors_pairs_and_tokens_of_every_shape(tmp_path: Path, count: int) -> None:
    reports = check(tmp_path, Grainy, count)
    assert reports[-1].waiting == 0
    scored: dict[str, int] = {}
    for report in reports:
        for label, added in report.scored.items():
            scored[label] = scored.get(label, 0) + added
    assert set(scored) == {"itc: captions", "itc: images", "itm: pairs", "lm: pairs"}
    assert scored["itm: pairs"] == 78
    if count > 1:
        assert reports[0].waiting > 0
        assert all(report.scored["itm: pairs"] for report in reports)
        assert "shard 3 of 3: scored" in str(reports[0])


@pytest.mark.parametrize("prior", [NoiseImages(2), OtherImages(3), "folder"])
def test_priors(tmp_path: Path, prior: Prior | str) -> None:
    if isinstance(prior, str):
        photos = tmp_path / "photos"
        photos.mkdir()
        for i in range(3):
            Image.new("RGB", (5, 5), (i, 200, 40 * i)).save(photos / f"{i}.png")
        prior = FolderImages(photos)
    check(tmp_path, Grainy, 3, prior=prior, scores=("lm",))
    names = ("plain",)
    check(tmp_path / "prior", Grainy, 3, prior=prior, scores=("prior",), benchmarks=names)


def test_chat(tmp_path: Path) -> None:
    check(tmp_path, Chatter, 3, benchmarks=("plain",), scores=("chat",))


def test_an_image_that_cannot_be_read(tmp_path: Path) -> None:
    check(tmp_path, Grainy, 2, benchmarks=("holes", "plain"), scores=("itm", "itc"))


@pytest.mark.parametrize("name", ["holes", "album"])
def test_priors_are_of_all_captions_whatever_was_skipped(tmp_path: Path, name: str) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(3):
        Image.new("RGB", (5, 5), (i, 200, 40 * i)).save(photos / f"{i}.png")
    for prior in (NoiseImages(2), FolderImages(photos)):
        folder = tmp_path / type(prior).__name__
        check(folder, Grainy, 2, prior=prior, scores=("lm",), benchmarks=(name,), batch_size=4)


def test_galleries_are_reranked_in_a_second_pass(tmp_path: Path) -> None:
    def score(i: int) -> Any:
        shard = parse_shard((i, 2))
        assert shard is not None
        asked = EvalRequest(
            ("patches",), ("itm",), subsets=("gallery",), rerank=2, cache=tmp_path, shard=shard,
            batch_size=5,
        )  # fmt: skip
        evaluate_models([Grainy()], asked)
        return shard.report()

    first, second = score(1), score(2)
    assert any("once more" in note for note in first.notes)
    assert second.notes == ()  # the vectors of the first are stored
    assert score(1).scored["itm: pairs"] > 0
    runs = evaluate_models(
        [Grainy()],
        EvalRequest(
            ("patches",), ("itm",), subsets=("gallery",), rerank=2, cache=tmp_path,
            cache_use="only", resamples=200,
        ),
    )  # fmt: skip
    assert len(runs) == 1


def test_a_reranked_gallery_with_a_torn_image_is_finished_in_two_passes(tmp_path: Path) -> None:
    def evaluate(**options: Any) -> Any:
        values = {"on": "album", "score": "itm", "rerank": 2, "batch_size": 5, "resamples": 100}
        return cp.evaluate(Grainy(), **{**values, "cache": tmp_path, **options})

    alone = evaluate(cache=False)
    first = [evaluate(shard=(i, 3)).shard for i in (1, 2)]
    assert all("once more" in str(report) for report in first)
    with pytest.raises(InputError, match=r"shard 3 of 3 lacks .*\(itc: "):
        evaluate(merge=True)
    evaluate(score="itc", shard=(3, 3))
    with pytest.raises(InputError, match=r"shard 1 of 3 lacks .*\(itm: pairs\); shard 2 of 3"):
        evaluate(merge=True)  # the shards have written vectors, and no pair yet
    second = [evaluate(shard=(i, 3)).shard for i in (1, 2, 3)]
    assert all(report.scored["itm: pairs"] and not report.notes for report in second)
    assert second[-1].waiting == 0
    assert evaluate(merge=True).results == alone.results


def test_scores_of_all_shards_are_asked_again(tmp_path: Path) -> None:
    def evaluate(shift: float = 0.0, **options: Any) -> Any:
        values = {"on": "album", "score": ["itc", "itm"], "rerank": 2, "batch_size": 5}
        cache = {"cache": tmp_path, "resamples": 100}
        return cp.evaluate(Shifted(shift=shift), **{**values, **cache, **options})

    alone = evaluate(cache=False)
    evaluate(shift=0.9)
    for _ in range(2):
        reports = [evaluate(shard=(i, 3), cache_use="refresh").shard for i in (1, 2, 3)]
        assert all("all shards twice" in str(report) for report in reports)
        assert all(sum(report.scored.values()) for report in reports)
    assert reports[-1].waiting == 0  # what is stored of other shards counts, however old
    merged = evaluate(merge=True)
    assert [run.results for run in merged] == [run.results for run in alone]


def test_images_that_others_could_not_open_are_not_waited_for(tmp_path: Path) -> None:
    def evaluate(**options: Any) -> Any:
        values = {"on": ["holes", "plain"], "batch_size": 5, "resamples": 100}
        return cp.evaluate(Grainy(), **{**values, "cache": tmp_path, **options})

    reports = [evaluate(shard=(i, 3)).shard for i in (1, 2, 3)]
    assert reports[0].waiting > reports[1].waiting > reports[2].waiting == 0


def test_merging_opens_no_image_that_no_shard_has_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(**options: Any) -> Any:
        values = {"on": ["holes"], "score": ["itm"], "batch_size": 5, "resamples": 100}
        return cp.evaluate(Grainy(), **{**values, "cache": tmp_path / "c", **options})

    opened: list[str] = []
    prepare = ScoringContext.prepare

    def note(context: ScoringContext, name: str, ref: ImageRef) -> Any:
        opened.append(ref.key)
        return prepare(context, name, ref)

    evaluate(shard=(1, 3))
    evaluate(shard=(2, 3))
    monkeypatch.setattr(ScoringContext, "prepare", note)
    with pytest.raises(InputError, match="shard 3 of 3 lacks"):
        evaluate(merge=True)
    assert set(opened) <= {"torn"}
    evaluate(shard=(3, 3))
    opened.clear()
    alone = evaluate(cache=False).results
    assert len(opened) > 1
    opened.clear()
    for options in ({"merge": True}, {"cache_use": "only"}):
        assert evaluate(**options).results == alone
    assert set(opened) == {"torn"}


def test_python(tmp_path: Path) -> None:
    examples = pairs(6)
    both = [
        cp.evaluate(Seeing(), on=examples, score="itc", cache=tmp_path / "c", shard=(i, 2))
        for i in (1, 2)
    ]
    assert all(isinstance(runs, cp.Runs) and not len(runs) for runs in both)
    report = getattr(both[0], "shard", None)
    assert report is not None
    assert sum(report.scored.values()) == 16
    run = cp.evaluate(Seeing(), on=examples, score="itc", cache=tmp_path / "c", cache_use="only")
    alone = cp.evaluate(Seeing(), on=examples, score="itc", cache=False)
    assert isinstance(run, cp.Run)
    assert isinstance(alone, cp.Run)
    assert run.results.metrics == alone.results.metrics


def test_refusals(tmp_path: Path) -> None:
    def evaluate(model: Any = None, **options: Any) -> object:
        return cp.evaluate(model or Fake(), on=pairs(2), score="itm", shard=(1, 2), **options)

    with pytest.raises(InputError, match="cache"):
        evaluate(cache=False)
    with pytest.raises(InputError, match="ends with its process"):
        evaluate(cache="memory://shards")
    with pytest.raises(InputError, match="only"):
        evaluate(cache=tmp_path, cache_use="only")
    with pytest.raises(InputError, match="out"):
        evaluate(cache=tmp_path, out=tmp_path / "run")
    with pytest.raises(InputError, match="fingerprint"):
        evaluate(lambda image, text: float(np.log(len(text))), cache=tmp_path)


def test_merging_shards_makes_the_table_or_names_the_shards_that_lack_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(**options: Any) -> Any:
        values = {"on": ["holes", "plain"], "score": ["itc", "itm"], "batch_size": 5}
        cache = {"cache": tmp_path / "c", "resamples": 100}
        return cp.evaluate(Grainy(), **{**values, **cache, **options})

    with pytest.raises(InputError, match=r"\(itc: captions\).*no shard has written.*merge"):
        evaluate(merge=True)
    evaluate(shard=(1, 3))
    with pytest.raises(InputError, match=r"shard 2 of 3 lacks .*\(itm: pairs\); shard 3 of 3"):
        evaluate(merge=True)
    monkeypatch.setenv("SLURM_PROCID", "2")
    monkeypatch.setenv("SLURM_NTASKS", "3")
    evaluate(shard="auto", cache=f"file://{tmp_path}/c")  # the same folder, as Slurm and fsspec say
    with pytest.raises(InputError) as error:
        evaluate(merge=True)
    words = str(error.value)
    assert "shard 2 of 3 lacks" in words
    assert "shard 1" not in words
    assert "shard 3" not in words
    evaluate(shard=(2, 3))
    runs = evaluate(merge=True)
    alone = cp.evaluate(
        Grainy(), on=["holes", "plain"], score=["itc", "itm"], batch_size=5, cache=False,
        resamples=100,
    )  # fmt: skip
    assert [run.results for run in runs] == [run.results for run in alone]
    assert runs[0].results.skipped is not None  # the torn image is missing from no shard


def test_a_shard_of_very_many_pairs_looks_up_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contrapose.engine.pending.MAX_TALLY", 0)
    reports = check(tmp_path, Grainy, 3, benchmarks=("plain",), scores=("itc", "itm", "lm"))
    assert all(report.waiting == 0 for report in reports)
    assert "its share is in the cache. Scores of other shards" in str(reports[0])


def test_vectors_of_other_shards_are_not_read(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def evaluate(**options: Any) -> Any:
        values = {"on": ["plain"], "score": ["itc"], "batch_size": 5, "resamples": 100}
        return cp.evaluate(Grainy(), **{**values, "cache": tmp_path / "c", **options})

    evaluate(shard=(1, 2))
    part = next((tmp_path / "c" / "answers").rglob("*itc*image*/*.parquet"))
    content = bytearray(part.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[-footer - 3] ^= 8  # the last vector
    part.write_bytes(content)
    evaluate(shard=(2, 2))
    assert not any(issubclass(one.category, DamageWarning) for one in recwarn)
    with (
        pytest.warns(DamageWarning, match=part.name),
        pytest.raises(InputError, match=r"shard 1 of 2 lacks .*images"),
    ):
        evaluate(merge=True)
    evaluate(shard=(1, 2))
    alone = evaluate(cache=False)
    assert [run.results for run in evaluate(merge=True)] == [run.results for run in alone]


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "memory"])
def test_a_shard_that_dies_on_a_remote_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("contrapose.engine.part_writer.WRITE_INTERVAL", 0.0)

    def evaluate(after: int | None = None, **options: Any) -> Any:
        values = {"on": ["plain"], "score": ["itc", "itm"], "batch_size": 5, "resamples": 100}
        return cp.evaluate(Grainy(after=after), **{**values, **options})

    alone = evaluate(cache=False)
    with open_url(kind, tmp_path, monkeypatch) as url:
        for variable, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
            monkeypatch.setenv(variable, value)  # as torchrun does
        evaluate(cache=url, shard="auto")
        with pytest.raises(KeyboardInterrupt):
            evaluate(5, cache=url, shard=(2, 2))
        system, root = fsspec.core.url_to_fs(url)
        parts = system.find(root)
        for part in [path for path in parts if path.endswith(".parquet")][:3]:
            folder, _, name = part.rpartition("/")
            half = system.cat_file(part)[:40]
            if kind == "s3":  # an upload of which one part arrived
                bucket, _, key = f"{folder}/0{name}".partition("/")
                upload = system.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
                system.call_s3(
                    "upload_part", Bucket=bucket, Key=key, PartNumber=1,
                    UploadId=upload["UploadId"], Body=half,
                )  # fmt: skip
            elif kind == "file":
                system.pipe_file(f"{folder}/.{name}.half", half)
        with pytest.raises(InputError, match="shard 2 of 2 lacks") as error:
            evaluate(cache=url, merge=True)
        assert "shard 1" not in str(error.value)
        evaluate(cache=url, shard=(2, 2))
        merged = evaluate(cache=url, merge=True)
        assert [run.results for run in merged] == [run.results for run in alone]


@dataclass
class Fussy(Picky):
    """Refuses captions with a certain word, an image and two pairs, and nothing when `mild`."""

    mild: bool = False

    def _look(self, texts: Sequence[str]) -> None:
        if not self.mild:
            super()._look(texts)

    def embed_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        if not self.mild and any(number(seen(image)) < 0.2 for image in images):
            raise InputError("fake does not look at this image.")
        return super().embed_images(images)

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        for image, text in zip(images, texts, strict=True):
            if not self.mild and number(seen(image), text) < 0.1:
                raise InputError(f"fake does not compare this image with {text!r}.")
        return Fake.match(self, images, texts)


@pytest.mark.parametrize("score", ["itc", "itm", "lm"])
def test_what_the_model_refuses_is_missing_from_no_shard(tmp_path: Path, score: str) -> None:
    def evaluate(mild: bool = False, **options: Any) -> Any:
        values = {"on": ["plain"], "score": [score], "batch_size": 5, "resamples": 100}
        if score == "lm":
            values["prior"] = "noise:2"
        return cp.evaluate(Fussy(mild=mild), **{**values, "cache": tmp_path / "c", **options})

    def results(runs: Any) -> list[Any]:
        return [(run.results, run.record.spec.get("skipped")) for run in runs]

    alone = evaluate(cache=False)
    assert all("refuses" in str(run.results.skipped) for run in alone)
    for i in (1, 2, 3):
        report = evaluate(shard=(i, 3)).shard
    assert report.waiting == 0  # the refusals of the others are known
    again = evaluate(shard=(1, 3)).shard
    assert sum(again.scored.values()) == 0
    for options in ({"merge": True}, {"cache_use": "only"}, {}):
        assert results(evaluate(**options)) == results(alone)
    mended = evaluate(mild=True)  # any run that may ask asks again
    assert all(run.results.skipped is None for run in mended)
    assert results(evaluate(merge=True)) == results(mended)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shard": (1, 2)}, "one of them"),
        ({"cache": False}, "cache"),
        ({"cache": "memory://merged"}, "ends with its process"),
        ({"cache_use": "only"}, "only"),
        ({"cache_use": "refresh"}, "does not go with .*refresh"),
    ],
)
def test_merging_needs_a_store_that_shards_filled(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        cp.evaluate(Grainy(), **{"on": "plain", "cache": tmp_path, "merge": True, **options})
