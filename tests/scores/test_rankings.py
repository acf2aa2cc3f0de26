"""Submission files of composed retrieval, read and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.data import ComposedQuery, ComposedSet, ImageRef, find_single_benchmark
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.metrics.composed import average_precision_at
from contrapose.scores.rankings import list_sizes, rank_matrix, read_rankings

IMAGES = tuple(ImageRef(name, Path(f"{name}.png")) for name in "abcdef")
QUERIES = (
    ComposedQuery("q0", 0, ("red",), (1,), subset=(1, 2)),
    ComposedQuery("q1", 1, ("blue",), (2, 3), subset=(2, 3)),
)
DATA = ComposedSet(IMAGES, (tuple(range(6)),), QUERIES, recall_at=(1, 2), subset_recall_at=(1,))
LISTS = {"q0": ["c", "b", "d"], "q1": ["c", "e", "d"]}


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_lists_of_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", {"version": "rc2", "metric": "recall", **LISTS})
    lists = read_rankings(path, DATA).gallery
    assert lists is not None
    assert lists.positions[:, :4].tolist() == [[2, 1, 3, -1], [2, 4, 3, -1]]
    assert lists.hits[:, :3].tolist() == [[False, True, False], [True, False, True]]
    assert lists.first.tolist() == [2, 1]


def test_a_folder_of_both_submissions(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {"metric": "recall", **LISTS})
    write(tmp_path / "b.json", {"metric": "recall_subset", "q0": ["c", "b"], "q1": ["d"]})
    write(tmp_path / "export.json", {"format": "cirr"})
    rankings = read_rankings(tmp_path, DATA)
    assert rankings.gallery is not None
    assert rankings.subset is not None
    assert rankings.subset.hits[:, 0].tolist() == [False, True]
    write(tmp_path / "c.json", LISTS)
    with pytest.raises(InputError, match="two files of recall"):
        read_rankings(tmp_path, DATA)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q1": ["c", "c"]}, "twice"),
        ({"q1": ["z"]}, "'z' is not in its gallery"),
        ({"q1": ["b"]}, "reference image"),
        ({"q1": "c"}, "list of image names"),
        ({"q1": [True]}, "list of image names"),
        ({"q9": ["c"]}, "'q9' is not in the benchmark"),
        ({"metric": "map"}, "metric is 'map'"),
        ({"metric": "recall_subset"}, "not in its subset"),
    ],
)
def test_malformed_rankings(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = write(tmp_path / "a.json", {**LISTS, **change})
    with pytest.raises(InputError, match=words):
        read_rankings(path, DATA)


def test_missing_queries_need_partial(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", {"q1": LISTS["q1"]})
    with pytest.raises(InputError, match="1 of 2 queries"):
        read_rankings(path, DATA)
    rankings = read_rankings(path, DATA, partial=True)
    assert [query.id for query in rankings.data.queries] == ["q1"]
    with pytest.raises(InputError, match=r"no \.json"):
        read_rankings(_empty(tmp_path), DATA)


def _empty(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_an_unlisted_gallery_may_name_other_images(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", {**LISTS, "q1": [999, "d"]})
    lists = read_rankings(path, replace(DATA, listed=False)).gallery
    assert lists is not None
    assert lists.positions[1, :2].tolist() == [-1, 3]
    assert list_sizes(replace(DATA, listed=False)).tolist() == [0, 0]


def test_the_reference_counts_only_where_it_stays() -> None:
    assert list_sizes(DATA).tolist() == [5, 5]
    assert list_sizes(replace(DATA, keep_reference=True)).tolist() == [6, 6]


def test_a_matrix_ranks_as_its_rows_say() -> None:
    scores = np.array([[9, 1, 2, 3, 0, 0], [5, 9, 4, 3, 2, 1.0]])
    rankings = rank_matrix(scores, DATA)
    assert rankings.gallery is not None
    assert rankings.subset is not None
    assert rankings.gallery.positions[:, :5].tolist() == [[3, 2, 1, 4, 5], [0, 2, 3, 4, 5]]
    assert rankings.subset.positions.tolist() == [[2, 1], [2, 3]]
    stays = rank_matrix(scores, replace(DATA, keep_reference=True)).gallery
    assert stays is not None
    assert stays.positions[:, 0].tolist() == [0, 1]


def test_circos_example_submission(shared: Path) -> None:
    root = shared / "cir" / "circo"
    data = find_single_benchmark("circo").read(root, StrictProblems())
    assert isinstance(data, ComposedSet)
    lists = read_rankings(root / "submission_val.json", data).gallery
    assert lists is not None
    counts = [len(query.relevant) for query in data.queries]
    values = [100 * average_precision_at(lists.hits, counts, k).mean() for k in data.precision_at]
    assert [round(value, 2) for value in values] == [0.49, 0.52, 0.54, 0.60]
