"""From a model to results: suites and single benchmarks, subsets, priors, runs on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import contrapose as cp
from contrapose.arrays import Ragged
from contrapose.data import EditSet, Gallery, ImageRef, Suite, registry
from contrapose.engine import NoiseImages, ScoringContext, score_examples
from contrapose.engine.storage import LocalStorage, UnwritableStoreError
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import QuestionTemplate
from contrapose.report import Table
from contrapose.report.evaluation import evaluation_tables
from contrapose.report.explorer.table import ExampleTable
from contrapose.results import Evaluation, compare_runs, read_run, write_run
from contrapose.results.runs import read_runs
from tests.engine.models import Picky, Reading, Seeing
from tests.fakes import Fake, Tower, choices, edits, gallery, made, pairs, patch, patches


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"patches": patches(), "plain": made("plain", "pairs", "2 × 2", pairs())}
    monkeypatch.setattr(registry, "_plugins", lambda: found)


def request(*benchmarks: str, **options: object) -> EvalRequest:
    return EvalRequest(benchmarks or ("patches",), resamples=200, **options)  # type: ignore[arg-type]


def test_a_run_for_every_model_benchmark_and_score() -> None:
    runs = evaluate_models([Fake(), Tower()], request("patches", "plain"))
    names = [(run.results.model, run.results.benchmark, run.results.score) for run in runs]
    assert names == [
        *(("fake", "patches", score) for score in ("itc", "itm", "lm")),
        *(("fake", "plain", score) for score in ("itc", "itm", "lm")),
        ("tower", "patches", "itc"),
        ("tower", "plain", "itc"),
    ]


def test_a_suite_is_measured_part_by_part() -> None:
    (run,) = evaluate_models([Fake()], request(scores=("itc",)))
    results = run.results
    assert list(results.subsets) == ["pairs", "choices", "gallery", "edits"]
    assert set(results.subsets["pairs"]) >= {"text", "image", "group"}
    assert set(results.subsets["choices"]) == {"accuracy"}
    assert "mean_recall" in results.subsets["gallery"]
    assert "simat_n1" in results.subsets["edits"]
    assert list(results.metrics) == ["average"]
    average = results.metrics["average"]
    mains = [results.subsets["pairs"]["group"], results.subsets["choices"]["accuracy"]]
    assert average.value == pytest.approx(np.mean([main.value for main in mains]))
    assert average.chance == pytest.approx((1 / 6 + 1 / 3) / 2)
    assert average.n == 24
    assert average.ci95 is not None
    low, high = average.ci95
    assert low <= average.value <= high
    scores = score_examples(ScoringContext(Fake()), "itc", pairs()).scores
    text = (scores[:, 0, 0] > scores[:, 0, 1]) & (scores[:, 1, 1] > scores[:, 1, 0])
    assert results.subsets["pairs"]["text"].value == pytest.approx(text.mean())


def test_parts_that_a_score_cannot_be_asked_of() -> None:
    (run,) = evaluate_models([Fake()], request(scores=("lm",)))
    assert list(run.results.subsets) == ["pairs", "choices"]
    assert any("gallery is not asked with lm" in note for note in run.results.notes)
    (named,) = evaluate_models([Fake()], request(scores=("lm",), subsets=("gallery",)))
    assert list(named.results.subsets) == ["gallery"]
    assert named.results.metrics == {}
    with pytest.raises(InputError, match="patches cannot be asked with itm: edits is not asked"):
        evaluate_models([Fake()], request(scores=("itm",), subsets=("edits",)))
    with pytest.raises(InputError, match="patches/edits cannot be asked with lm"):
        evaluate_models([Fake()], request("patches/edits", scores=("lm",)))


def test_one_part_by_its_full_name() -> None:
    (part,) = evaluate_models([Tower()], request("patches/pairs"))
    (plain,) = evaluate_models([Tower()], request("plain"))
    assert part.results.benchmark == "patches/pairs"
    assert part.results.metrics == plain.results.metrics


def test_the_prior_as_a_score_and_taken_out() -> None:
    runs = evaluate_models(
        [Fake()], request("plain", scores=("lm", "prior"), prior=NoiseImages(2), alpha=0.0)
    )
    raw, debiased, blind = (run.results for run in runs)
    assert [run.results.score for run in runs] == ["lm", "lm-alpha", "prior"]
    assert debiased.alpha is not None
    assert debiased.metrics["text"].value == raw.metrics["text"].value
    # A score that does not see the image prefers the same caption under both.
    assert blind.metrics["text"].value == 0
    assert blind.metrics["image"].ties == 1
    suite = evaluate_models([Fake()], request(scores=("lm",), prior=NoiseImages(2)))[1].results
    assert set(suite.part_alphas) == {"pairs", "choices"}


@dataclass
class Prompted(Seeing):
    """A captioner with a prompt, as chat models have."""

    lm_tokens: str = "caption+end|prompt=Say it."

    def with_prompt(self, prompt: str) -> Prompted:
        return replace(self, lm_tokens=f"caption+end|prompt={prompt}")

    def token_logprobs(self, images: Any, texts: Sequence[str]) -> Ragged:
        return super().token_logprobs(images, [f"{self.lm_tokens} {text}" for text in texts])


def test_a_prompt_is_part_of_the_score_s_name(tmp_path: Path) -> None:
    asked = request("plain", scores=("lm",), cache=tmp_path)
    (usual,) = evaluate_models([Prompted()], asked)
    (run,) = evaluate_models([Prompted()], replace(asked, prompt="A photo of"))
    assert usual.spec["stored_as"] == "lm:mean:caption+end|prompt=Say it."
    assert run.spec["stored_as"] == "lm:mean:caption+end|prompt=A photo of"
    assert any("prompt=A photo of" in note for note in run.results.notes)
    assert run.scores is not None
    assert usual.scores is not None
    assert not np.array_equal(run.scores["value"], usual.scores["value"])
    with pytest.raises(InputError, match=r"fake takes no prompt.*leave out prompt"):
        evaluate_models([Fake()], replace(asked, prompt="A photo of"))
    with pytest.raises(InputError, match=r"prompt is of the score lm"):
        evaluate_models([Prompted()], replace(asked, prompt="A photo of", scores=("itm",)))


def test_limit_and_subsets() -> None:
    (run,) = evaluate_models([Tower()], request(limit=5))
    sizes = {name: max(m.n for m in part.values()) for name, part in run.results.subsets.items()}
    assert sizes == {"pairs": 5, "choices": 5, "gallery": 10, "edits": 5}
    for options, message in (
        ({"limit": 0}, r"limit.*at least 1"),
        ({"subsets": ("pears",)}, "no subset 'pears': did you mean pairs"),
        ({"scores": ("itk",)}, "no score 'itk'"),
        ({"scores": ("lm",)}, "tower cannot give 'lm'"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_models([Tower()], request(**options))
    with pytest.raises(InputError, match="plain has no subset 'x': there are pairs"):
        evaluate_models([Tower()], request("plain", subsets=("x",)))
    with pytest.raises(InputError, match=r"winoground is gated.*root"):
        evaluate_models([Tower()], request("winoground"))


def test_the_cache_serves_other_benchmarks_and_runs(tmp_path: Path) -> None:
    first = Fake()
    before = evaluate_models([first], request(cache=tmp_path))
    again = Fake()
    after = evaluate_models([again], request("patches", "plain", cache=tmp_path))
    assert not [*again.images, *again.texts, *again.pairs]
    assert [run.results for run in before] == [run.results for run in after[:3]]


def test_run_folders(tmp_path: Path) -> None:
    runs = evaluate_models([Fake(), Tower()], request("patches", "plain"))
    folder = tmp_path / "run"
    write_run(runs, folder)
    assert sorted(file.name for file in folder.iterdir()) == [
        "examples.parquet", "results.json", "scores.parquet", "spec.json",
    ]  # fmt: skip
    stored = Evaluation.model_validate_json((folder / "results.json").read_text())
    assert stored.runs == tuple(run.results for run in runs)
    scores = pq.read_table(folder / "scores.parquet")
    assert scores.column_names == [
        "model", "benchmark", "score", "example", "image", "text", "value", "match",
    ]  # fmt: skip
    rows = [
        row for row in scores.to_pylist() if (row["benchmark"], row["score"]) == ("plain", "lm")
    ]
    assert len(rows) == 48
    expected = score_examples(ScoringContext(Fake()), "lm", pairs()).scores
    for row in rows:
        k = int(row["example"].removeprefix("p"))
        assert row["value"] == expected[k, row["image"], row["text"]]
    for run in runs:
        results = run.results
        name, measured = read_run(
            folder, (results.model or "", results.benchmark, results.score or "")
        )
        assert name == results.benchmark
        assert measured.ids == run.measured.ids
        assert measured.tags == run.measured.tags
        assert list(measured.measures) == list(run.measured.measures)
        for each, measure in run.measured.measures.items():
            assert np.array_equal(measured.measures[each].values, measure.values * measure.where)
            assert (measured.measures[each].ties is None) == (measure.ties is None)
    with pytest.raises(
        InputError, match=r"holds several runs; pass .*@ and one of: fake,patches,itc"
    ):
        read_run(folder)
    with pytest.raises(InputError, match="holds no run of blip"):
        read_run(folder, ("blip",))


def test_runs_are_compared(tmp_path: Path) -> None:
    write_run(evaluate_models([Fake(), Tower()], request()), tmp_path / "run")
    found = compare_runs(tmp_path / "run@fake,itc", tmp_path / "run@tower", resamples=200)
    assert list(found.metrics) == ["average", "pairs/group", "choices/accuracy"]
    assert found.metrics["average"].difference == 0  # the two see alike in their vectors
    other = compare_runs(
        tmp_path / "run@fake,itc", tmp_path / "run@lm", resamples=200, partial=True
    )
    change = other.metrics["pairs/group"]
    assert change.n == 12
    assert change.test == "mcnemar-midp"


def plug(monkeypatch: pytest.MonkeyPatch, **found: object) -> None:
    monkeypatch.setattr(registry, "_plugins", lambda: found)


def test_models_that_skip_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    """n of each model where they differ; `common` measures all on the same examples."""
    data = choices()
    data[4] = replace(data[4], texts=("not 13", "a 13", "b"))
    rest = [*data[:4], *data[5:]]
    plug(monkeypatch, some=made("some", "choice", "1 × 3", data),
         rest=made("rest", "choice", "1 × 3", rest))  # fmt: skip
    models = [Tower(), Picky()]
    runs = [run.results for run in evaluate_models(models, request("some", scores=("itc",)))]
    assert [run.metrics["accuracy"].n for run in runs] == [12, 11]
    table, *notes = evaluation_tables(runs)
    assert isinstance(table, Table)
    assert table.header.count("n") == 2
    assert table.rows[0][table.header.index("n") :: 2] == ("12", "11")
    assert any("different numbers of examples" in str(note) for note in notes)
    shared = evaluate_models(models, request("some", scores=("itc",), common=True))
    alone = evaluate_models(models, request("rest", scores=("itc",)))
    for run, expected in zip(shared, alone, strict=True):
        assert run.measured.ids == expected.measured.ids
        assert run.results.metrics == expected.results.metrics
    table, *notes = evaluation_tables([run.results for run in shared])
    assert not any("different numbers" in str(note) for note in notes)
    assert any("1 of 12" in note for run in shared for note in run.results.notes)


def test_common_images_captions_and_class_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Galleries, classes and edit queries: both models get the gallery without what one skips."""
    grid, moves = gallery(), edits()
    two = replace(
        grid, texts=(*grid.texts[:5], "a 13", *grid.texts[6:], "w 13", "patch 3 again"),
        pairs=(*grid.pairs, (3, 12), (3, 13)),
    )  # fmt: skip
    keep = [i for i in range(12) if i != 5]
    fewer = Gallery(
        "gallery", tuple(grid.images[i] for i in keep),
        (*(grid.texts[i] for i in keep), "patch 3 again"),
        (*((i, i) for i in range(11)), (3, 11)), text_numbers=(*keep, 13),
    )  # fmt: skip
    classes = replace(grid, texts=(*grid.texts[:5], "a 13", *grid.texts[6:]), templates=("{}",))
    named = replace(
        fewer, texts=fewer.texts[:-1], pairs=tuple((i, i) for i in range(11)), templates=("{}",)
    )
    query = replace(moves.queries[2], source="word 13")
    unread = replace(moves, queries=(*moves.queries[:2], query, *moves.queries[3:]))
    asked = replace(moves, queries=(*moves.queries[:2], *moves.queries[3:]))
    for family, some, rest, words in (
        ("retrieval", two, fewer, "1 of 12 images and 2 of 14 captions"),
        ("classes", classes, named, "1 of 12 images and 1 of 12 class names"),
        ("edits", unread, asked, "1 of 11 queries"),
    ):
        plug(monkeypatch, some=made("some", family, "N × M", some),
             rest=made("rest", family, "N × M", rest))  # fmt: skip
        models = [Tower(), Picky()]
        scores = ("itc:delta",) if family == "edits" else ("itc",)
        apart = evaluate_models(models, request("some", scores=scores))
        assert len(apart[0].measured) > len(apart[1].measured)
        shared = evaluate_models(models, request("some", scores=scores, common=True))
        alone = evaluate_models(models, request("rest", scores=scores))
        for run, expected in zip(shared, alone, strict=True):
            assert run.measured.ids == expected.measured.ids
            assert run.results.metrics == expected.results.metrics
            assert run.results.notes[-1].startswith(f"{words} are left out")


def test_captions_of_a_gallery_keep_their_ids_beside_skipped_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = gallery()
    texts = (*grid.texts[:5], "a 13", *grid.texts[6:])  # which Picky refuses
    plug(monkeypatch, some=made("some", "retrieval", "N × M", replace(grid, texts=texts)))
    runs = evaluate_models([Tower(), Picky()], request("some", scores=("itc",)))
    whole, cut = (run.measured for run in runs)
    assert set(whole.ids) - set(cut.ids) == {"text 5", f"image {grid.images[5].key}"}
    write_run(runs, tmp_path / "run")
    table = ExampleTable(read_runs(tmp_path / "run"))
    rows = {row["id"]: row for row in map(table.row, range(len(table)))}
    assert len(rows) == len(table) == 24
    for number in range(12):
        if number != 5:
            assert rows[f"text {number}"]["captions"] == [texts[number]]
    assert rows["text 5"]["runs"][1]["outcomes"][0] == "s"


def test_common_database_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that one model cannot see is an answer for none."""
    moves = edits()
    last = EditSet(
        (*moves.images[:11], ImageRef("lost", tmp_path / "lost.png")), moves.captions,
        moves.caption_of, moves.queries,
    )  # fmt: skip
    plug(monkeypatch, some=made("some", "edits", "queries", last))
    (run,) = evaluate_models([Tower()], request("some", scores=("itc:delta",)))
    assert run.spec["skipped_candidates"] == ["image lost"]
    (shared,) = evaluate_models([Tower()], request("some", scores=("itc:delta",), common=True))
    assert "1 of 12 database images are left out" in shared.results.notes[-1]
    assert "skipped_candidates" not in shared.spec


def test_nothing_in_common_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Gallery("gallery", (patch(1),), ("a 13",), ((0, 0),))
    suite = Suite("both", "Both", {"one": made("one", "retrieval", "N × M", one),
                                   "some": made("some", "choice", "1 × 3", choices())})  # fmt: skip
    plug(monkeypatch, both=suite)
    with pytest.raises(InputError, match="was scored by every model"):
        evaluate_models([Tower(), Picky()], request("both", scores=("itc",), common=True))


def lost(tmp_path: Path, *images: ImageRef) -> tuple[ImageRef, ...]:
    """The same images, the second of them missing."""
    return (images[0], ImageRef(images[1].key, tmp_path / "lost.png"), *images[2:])


def test_skipped_examples_count_in_no_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = choices()
    broken = [
        replace(whole[3], images=(ImageRef("x", tmp_path / "lost.png"),)),
        replace(whole[4], texts=("not 13", "a 13", "b")),
    ]
    data = [*whole[:3], *broken, *whole[5:]]
    plug(monkeypatch, some=made("some", "choice", "1 × 3", data),
         rest=made("rest", "choice", "1 × 3", [*whole[:3], *whole[5:]]))  # fmt: skip
    for score in ("itc", "itm", "lm"):
        options = {"scores": (score,)}
        (run,) = evaluate_models([Picky()], request("some", **options))
        (rest,) = evaluate_models([Picky()], request("rest", **options))
        results = run.results
        assert results.metrics == rest.results.metrics
        assert results.examples == 10
        assert results.skipped is not None
        assert results.skipped.examples == 2
        assert results.skipped.reasons["the image is not there"] == 1
        assert results.skipped.first.startswith(f"c3: {tmp_path}")
        assert results.notes[-1].startswith("2 of 12 examples were skipped: 1 because the image is")
        assert set(run.spec["skipped"]) == {"c3", "c4"}
        assert rest.results.skipped is None
        assert run.scores is not None
        assert not np.isnan(run.scores["value"]).any()
        with pytest.raises(InputError, match="2 examples of some cannot be asked, the first is"):
            evaluate_models([Picky()], request("some", strict=True, **options))
    debiased = evaluate_models([Picky()], request("some", scores=("lm",), prior=NoiseImages(2)))[1]
    assert debiased.results.skipped is not None
    assert debiased.results.examples == 10
    write_run(debiased, tmp_path / "run")
    assert len(read_run(tmp_path / "run")[1]) == 10


def test_nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [replace(e, images=(ImageRef("x", tmp_path / "lost.png"),)) for e in choices()]
    suite = patches()
    parts = {**suite.parts, "choices": made("choices", "choice", "1 × 3", gone)}
    plug(monkeypatch, gone=made("gone", "choice", "1 × 3", gone),
         suite=replace(suite, parts=parts))  # fmt: skip
    with pytest.raises(InputError, match="not one example of gone can be asked; the first: "):
        evaluate_models([Fake()], request("gone", scores=("itm",)))
    (run,) = evaluate_models([Fake()], request("suite", scores=("itc",)))
    assert "choices" not in run.results.subsets
    assert run.results.skipped is not None
    assert run.results.skipped.examples == 12
    assert any(note.startswith("choices is left out") for note in run.results.notes)


def test_galleries_and_edits_leave_out_their_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, moves = gallery(), edits()
    long = replace(grid, images=lost(tmp_path, *grid.images),
                   texts=(*grid.texts[:5], "w " * 99, *grid.texts[6:]))  # fmt: skip
    keep = [i for i in range(12) if i not in (1, 5)]
    rest = Gallery(
        "gallery",
        tuple(grid.images[i] for i in keep),
        tuple(grid.texts[i] for i in keep),
        tuple((i, i) for i in range(10)),
    )
    fewer = EditSet(lost(tmp_path, *moves.images), moves.captions, moves.caption_of, moves.queries)
    plug(monkeypatch, long=made("long", "retrieval", "N × M", long),
         rest=made("rest", "retrieval", "N × M", rest),
         fewer=made("fewer", "edits", "queries", fewer))  # fmt: skip
    for score in ("itc", "itm"):
        for rerank in (None, 4):
            options = {"scores": (score,), "rerank": rerank}
            (run,) = evaluate_models([Reading()], request("long", **options))
            (right,) = evaluate_models([Reading()], request("rest", **options))
            assert run.results.skipped is not None
            assert run.results.skipped.examples == 4  # two images and two texts
            assert run.results.metrics["image_to_text_r1"].n == 10
            assert run.results.metrics == right.results.metrics
    (run,) = evaluate_models([Reading()], request("fewer", scores=("itc:delta",)))
    assert run.results.skipped is not None
    assert run.results.skipped.examples == 1
    assert run.results.metrics["simat_n1"].n == 10


def test_reranking_is_said(tmp_path: Path) -> None:
    options = {"scores": ("itm",), "subsets": ("gallery",)}
    (run,) = evaluate_models([Fake()], request(rerank=3, **options))
    (whole,) = evaluate_models([Fake()], request(rerank=0, **options))
    assert (run.results.score, whole.results.score) == ("itm:rerank=3", "itm")
    assert any("itm orders the 3 of highest itc of every query" in n for n in run.results.notes)
    assert run.scores is not None
    assert whole.scores is not None
    assert len(run.scores["value"]) < len(whole.scores["value"]) == 144
    both = {(i, j): v for i, j, v in zip(*(whole.scores[c] for c in ("image", "text", "value")),
                                         strict=True)}  # fmt: skip
    for i, j, v in zip(*(run.scores[c] for c in ("image", "text", "value")), strict=True):
        assert both[i, j] == v
    write_run([run, whole], tmp_path / "run")
    assert read_run(tmp_path / "run", ("itm:rerank=3",))[0] == "patches"


def test_cut_captions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [replace(e, texts=(*e.texts[:2], "w " * 20)) for e in choices()]
    plug(monkeypatch, some=made("some", "choice", "1 × 3", data))
    for score in ("itc", "itm"):
        (run,) = evaluate_models([Reading(cuts=True)], request("some", scores=(score,)))
        assert "1 of 25 captions was cut to 6 tokens" in run.results.notes
        assert run.results.skipped is None


def test_a_benchmark_of_questions_is_asked_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = made("plain", "pairs", "2 × 2", pairs(2))
    card = replace(benchmark.card, question="{} Please answer yes or no.")
    monkeypatch.setattr(registry, "_plugins", lambda: {"plain": replace(benchmark, card=card)})
    model = Seeing()
    (run,) = evaluate_models([model], request("plain", scores=("vqa",)))
    assert {text for _, text in model.pairs} == {
        f"{caption} Please answer yes or no." for example in pairs(2) for caption in example.texts
    }
    assert any("'{} Please answer yes or no.'" in note for note in run.results.notes)
    model = Seeing()
    given = QuestionTemplate("Is it {}?", "Yes")
    evaluate_models([model], request("plain", scores=("vqa",), question=given))
    assert all(text.startswith("Is it ") for _, text in model.pairs)


def test_a_store_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(count: int, **options: Any) -> cp.Run:
        run = cp.evaluate(
            Reading(), on=pairs(count), score="itm", cache=tmp_path, resamples=100, **options
        )
        assert isinstance(run, cp.Run)
        return run

    first = evaluate(3)

    def refuse(*_: object) -> None:
        raise UnwritableStoreError(tmp_path, OSError(30, "Read-only file system"))

    monkeypatch.setattr(LocalStorage, "prepare", refuse)
    monkeypatch.setattr(LocalStorage, "write", refuse)
    assert evaluate(3, cache_use="only").metrics == first.metrics
    with pytest.raises(InputError, match="not in the cache"):
        evaluate(5, cache_use="only")
    with pytest.raises(InputError, match="Read-only"):
        evaluate(3)
