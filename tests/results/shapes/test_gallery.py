"""Galleries, class folders and edit queries from matrices, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.api.measure import measure
from contrapose.data import EditSet, ImageRef
from contrapose.data.examples import EditQuery
from contrapose.report.results import results_tables
from contrapose.report.tables import Table
from tests.conftest import Cli


def karpathy(root: Path, images: int, captions: int) -> None:
    entries = [
        {
            "filename": f"{i}.jpg",
            "split": "test",
            "sentences": [{"raw": f"caption {j} of {i}"} for j in range(captions)],
        }
        for i in range(images)
    ]
    (root / "dataset_flickr30k.json").write_text(json.dumps({"images": entries}))


def test_retrieval(cli: Cli, tmp_path: Path) -> None:
    images, captions = 12, 5
    karpathy(tmp_path, images, captions)
    scores = np.random.default_rng(0).random((images, images * captions)).astype(np.float32)
    scores[np.arange(images * captions) // captions, np.arange(images * captions)] += 0.3
    np.save(tmp_path / "s.npy", scores)
    arguments = ("metrics", "flickr30k-retrieval", "--root", tmp_path, "--scores")
    found = json.loads(cli(*arguments, tmp_path / "s.npy", "--json").out)["metrics"]
    for k in (1, 5, 10):
        hits = [any(j // captions == i for j in np.argsort(-scores[i])[:k]) for i in range(images)]
        assert found[f"image_to_text_r{k}"]["value"] == pytest.approx(np.mean(hits))
        assert found[f"image_to_text_r{k}"]["n"] == images
        hits = [j // captions in np.argsort(-scores[:, j])[:k] for j in range(images * captions)]
        assert found[f"text_to_image_r{k}"]["value"] == pytest.approx(np.mean(hits))
        assert found[f"text_to_image_r{k}"]["chance"] == pytest.approx(k / images)
    recalls = [value["value"] for name, value in found.items() if name != "mean_recall"]
    assert found["mean_recall"]["value"] == pytest.approx(np.mean(recalls))
    np.save(tmp_path / "s.npy", scores.T)
    assert "expected (12, 60)" in cli(*arguments, tmp_path / "s.npy").refused()
    assert (
        "--root" in cli("metrics", "flickr30k-retrieval", "--scores", tmp_path / "s.npy").refused()
    )


def test_classes(cli: Cli, tmp_path: Path) -> None:
    for name in ("cat", "dog", "emu"):
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.new("RGB", (4, 4)).save(tmp_path / name / f"{i}.jpg")
    scores = np.eye(3).repeat(2, axis=0)
    scores[0] = [1, 1, 0]
    np.save(tmp_path / "s.npy", scores)
    said = cli(
        "metrics", "class-folders", "--root", tmp_path, "--scores", tmp_path / "s.npy", "--json"
    )
    found = json.loads(said.out)["metrics"]
    assert found["top1"]["value"] == pytest.approx(5 / 6)
    assert found["top1"]["ties"] == pytest.approx(1 / 6)
    assert found["top1"]["chance"] == pytest.approx(1 / 3)


def test_simat(cli: Cli, shared: Path, tmp_path: Path) -> None:
    """An oracle's own matrix scores 1; random vectors score as rarely as images fit by chance."""
    from contrapose.data import find_single_benchmark
    from contrapose.files import StrictProblems

    folder = tmp_path / "simat"
    folder.mkdir()
    for name in ("captions.txt", "retrieval_db.tsv", "triplets.csv"):
        (folder / name).symlink_to(shared / "simat" / name)
    header, *rows = (shared / "simat" / "transfos.csv").read_text().splitlines(keepends=True)
    (folder / "transfos.csv").write_text("".join([header, *rows[::8]]))
    edits = find_single_benchmark("simat").read(folder, StrictProblems())
    assert isinstance(edits, EditSet)
    wanted = np.array([query.target_caption for query in edits.queries])
    caption = np.array(edits.caption_of)
    fits = (caption[None, :] == wanted[:, None]).astype(np.float32)
    np.save(tmp_path / "s.npy", fits)
    arguments = ("metrics", "simat", "--root", folder, "--scores", tmp_path / "s.npy")
    found = json.loads(cli(*arguments, "--json", "--resamples", 100).out)
    assert found["metrics"]["simat_n1"]["value"] == 1.0
    test = sum(row.rstrip().endswith("True") for row in rows[::8])
    dev = sum(row.rstrip().endswith("False") for row in rows[::8])
    assert test + dev == 2250
    assert {name: metric["n"] for name, metric in found["metrics"].items()} == {
        "simat_n1": test, "simat_n5": test, "simat_n1_dev": dev, "simat_n5_dev": dev,
    }  # fmt: skip
    assert (
        0 < found["metrics"]["simat_n1"]["chance"] < found["metrics"]["simat_n5"]["chance"] < 0.02
    )
    assert list(found["subsets"]) == ["obj", "subj", "rel"]


def small_edits() -> EditSet:
    """Four images of two captions, and a query from each image to the other caption."""
    images = tuple(ImageRef(str(i), Path(f"{i}.png")) for i in range(4))
    queries = tuple(
        EditQuery(
            str(i), i, "a", "b", i % 2, 1 - i % 2, 1.0 + i, {"split": "dev" if i < 2 else "test"}
        )
        for i in range(4)
    )
    return EditSet(images, ("a", "b"), (0, 1, 0, 1), queries, depths=(1, 2))


def test_dev_and_test_queries_are_never_mixed() -> None:
    """Dev queries are all right, test queries are not, one of them by a tie."""
    scores = np.array([[9, 5, 4, 3], [5, 9, 4, 3], [1, 2, 9, 3], [5, 5, 1, 9]])
    scores[2] = [5, 4, 9, 3]
    run = measure(scores, small_edits())
    values = {name: (metric.value, metric.n, metric.ties) for name, metric in run.metrics.items()}
    assert values == {
        "simat_n1": (0.0, 2, pytest.approx(4 / 7)),
        "simat_n2": (1.0, 2, 0.0),
        "simat_n1_dev": (1.0, 2, 0.0),
        "simat_n2_dev": (1.0, 2, 0.0),
    }
    assert run.metrics["simat_n1"].chance == pytest.approx(2 / 3)
    official = measure(scores, small_edits(), protocol="official")
    assert official.metrics["simat_n1"].value == pytest.approx(4 / 7)
    table = results_tables(run.results)[0]
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows][2] == ("simat_n1_dev", "100.00")
