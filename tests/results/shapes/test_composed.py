"""Composed retrieval end to end: a rendered set in CIRR's format, fusions, comparison, tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import ComposedQuery, ComposedSet
from tests.composed import write_cirr
from tests.conftest import Cli
from tests.engine.models import Reading
from tests.fakes import Fake, patch

QUERIES = 12


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_cirr(tmp_path / "cirr", queries=QUERIES)
    return tmp_path / "cirr"


def test_fusions_of_a_model_on_cirr(cli: Cli, root: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = cli("eval", "tiny-clip", "--on", "cirr", "--root", root, "--out", run, "--no-cache",
               "--score", "itc:image,itc:sum,itc:text", "--resamples", 100)  # fmt: skip
    assert said.status == 0, said
    for words in ("itc:image", "itc:sum", "itc:text", "subset_r1", "r50"):
        assert words in said.out
    assert "Note on cirr: the gallery is the 24 images of split.rc2.val.json" in said.out
    assert "own image is left out" in said.out
    image, both, text = cp.load_runs(run)
    assert both.metrics["r1"].value > image.metrics["r1"].value
    assert text.metrics["r1"].value > image.metrics["r1"].value
    assert image.metrics["r1"].chance == pytest.approx(1 / 23)
    assert image.metrics["subset_r1"].chance == pytest.approx(1 / 5)
    assert image.results.clusters == QUERIES  # one for each reference image
    assert [row["id"] for row in both.examples()] == [str(100 + q) for q in range(QUERIES)]
    compared = cli("compare", f"{run}@itc:image", f"{run}@itc:sum", "--json")
    metrics = json.loads(compared.out)["metrics"]
    assert metrics["r1"]["difference"] > 0
    assert metrics["r1"]["n"] == QUERIES


def test_itc_alone_is_every_fusion(root: Path) -> None:
    runs = cp.evaluate(Fake(), on="cirr", root=root, cache=False, resamples=100, limit=3)
    assert [run.score for run in runs] == [
        "itc:text", "itc:image", "itc:sum", "itc:product", "itc:weicom", "itc:basic",
    ]  # fmt: skip
    assert {run.results.examples for run in runs} == {3}


def test_scores_that_do_not_fit(cli: Cli, root: Path) -> None:
    there = ("--on", "cirr", "--root", root, "--no-cache")
    assert "need a fusion" in cli("eval", "tiny", *there, "--score", "itm").refused()
    assert "itc:sum" in cli("eval", "tiny-clip", *there, "--score", "itc:som").refused()
    said = cli("eval", "tiny-clip", "--on", "scenes/add", "--score", "itc:sum", "--limit", 2)
    assert "composed queries" in said.refused()


def test_a_lost_image_is_counted(cli: Cli, root: Path) -> None:
    (root / "dev" / "dev-1.png").unlink()
    said = cli("eval", "tiny-clip", "--on", "cirr", "--root", root, "--no-cache",
               "--score", "itc:sum", "--resamples", 100)  # fmt: skip
    assert "1 of 24 images cannot be read" in said.out
    assert "1 of 12 examples was skipped" in said.out
    strict = cli("eval", "tiny-clip", "--on", "cirr", "--root", root, "--no-cache",
                 "--score", "itc:sum", "--strict", "--quiet")  # fmt: skip
    assert "100" in strict.refused()


def composed(**fields: object) -> ComposedSet:
    queries = tuple(
        ComposedQuery(
            f"q{q}", q % 4, (f"text {q}",), (5 + q % 3, 8),
            tags={"subset": "odd" if q % 2 else "even"},
        )
        for q in range(12)
    )  # fmt: skip
    images = tuple(patch(i) for i in range(9))
    return ComposedSet(images, (tuple(range(9)),), queries, **fields)  # type: ignore[arg-type]


def test_a_matrix_and_its_metrics() -> None:
    data = composed(precision_at=(1, 5), recall_at=(1,), keep_reference=True)
    scores = np.random.default_rng(0).random((12, 9))
    run = cp.measure(scores, data, resamples=100)
    order = np.argsort(-scores, axis=1)
    hits = [
        [i in query.relevant for i in row]
        for query, row in zip(data.queries, order.tolist(), strict=True)
    ]
    precisions = [sum(sum(row[: r + 1]) / (r + 1) for r in range(5) if row[r]) / 2 for row in hits]
    assert run.metrics["map5"].value == pytest.approx(np.mean(precisions))
    assert run.metrics["r1"].value == pytest.approx(np.mean([row[0] for row in hits]))
    assert run.metrics["map1"].value == run.metrics["r1"].value
    assert run.metrics["map1"].chance == pytest.approx(2 / 9)
    assert run.results.clusters == 4
    assert run.results.notes[0] == "a query's own image stays in its ranking"


def test_ties_are_told() -> None:
    run = cp.measure(np.zeros((12, 9)), composed(recall_at=(1,), precision_at=(5,)), resamples=100)
    assert run.metrics["r1"].value == 0
    assert run.metrics["r1"].ties == 1
    assert run.metrics["map5"].ties == 1


def test_subsets_are_chosen_by_their_tag() -> None:
    data = composed(recall_at=(1,))
    runs = cp.evaluate(Fake(), on=data, score="itc:sum", subset="odd", cache=False, resamples=100)
    assert runs.results.examples == 6  # type: ignore[union-attr]


def test_common_queries_of_two_models() -> None:
    data = composed(recall_at=(1,))
    long = replace(data.queries[0], texts=("one two three four five six seven",))
    data = replace(data, queries=(long, *data.queries[1:]))
    models = [Fake(), Reading(name="reading", fingerprint="reading-1")]
    for common, counts in ((False, [12, 11]), (True, [11, 11])):
        runs = cp.evaluate(
            models, on=data, score="itc:sum", common=common, cache=False, resamples=100
        )
        assert [run.results.examples for run in runs] == counts
    assert cp.compare(*runs).metrics["r1"].n == 11
