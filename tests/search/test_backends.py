"""Vector backends: exact arrays, and LanceDB where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.errors import InputError, MissingExtraError
from contrapose.search import backends
from contrapose.search.backends import (
    ExactBackend,
    copy_to_lance,
    measure_recall,
    open_lance,
)
from contrapose.search.exact import Neighbors
from contrapose.search.index import Index, block_checksum, open_index, write_index
from contrapose.search.writer import IndexRequest, build_index
from tests.conftest import Cli
from tests.search.photos import ColorModel, write_photos


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(IndexRequest(write_photos(tmp_path / "photos", 40)), ColorModel()).index


def test_exact_backend(index: Index) -> None:
    backend = ExactBackend(index.vectors)
    assert backend.count() == 40
    assert measure_recall(backend, index.vectors) == 1.0
    backend.add(index.vectors[:3])
    assert backend.count() == 43
    assert backend.search(index.vectors[:1], 2).rows.tolist() == [[0, 40]]


def test_recall_counts_what_is_missed(index: Index) -> None:
    class Half(ExactBackend):
        def search(self, queries: np.ndarray, k: int) -> Neighbors:
            nearest = super().search(queries, k)
            rows = nearest.rows.copy()
            rows[:, 1::2] = -1
            return Neighbors(rows, nearest.scores)

    assert measure_recall(Half(index.vectors), index.vectors) == 0.5


def test_without_lancedb(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(backends, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"\[lance\]"):
        copy_to_lance(index, str(tmp_path / "lance"))


@pytest.mark.filterwarnings("ignore")
def test_a_copy_in_lancedb(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lancedb")
    monkeypatch.setattr(backends, "BATCH", 16)
    url = str(tmp_path / "lance")
    with pytest.raises(InputError, match="no copy"):
        open_lance(index, url)
    model = ColorModel()
    report = cp.index(index.root, model=model, lance=url)
    assert report.recall == 1.0  # below 100,000 vectors LanceDB compares all of them too
    copy = open_lance(report.index, url)
    assert copy.count() == 40
    image = index.root / "more" / "red-0.png"
    arguments = {"image": image, "change": "red -> blue", "k": 5}
    searcher = cp.load_index(index.root, model=model, lance=url)
    near = cp.search(searcher, **arguments)  # type: ignore[arg-type]
    exact = cp.search(cp.load_index(index.root, model=model), **arguments)  # type: ignore[arg-type]
    assert [hit.row for hit in near.hits] == [hit.row for hit in exact.hits]
    with pytest.raises(InputError, match="exact"):
        cp.search(searcher, image=image, text="blue", fusion="product")
    (index.root / "green-1.png").unlink()
    newer = cp.index(index.root, model=model).index
    with pytest.raises(InputError, match="older"):
        open_lance(newer, url)


@pytest.mark.filterwarnings("ignore")
def test_an_approximate_index_in_lancedb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """Above a number of vectors LanceDB searches approximately, and its recall is printed."""
    pytest.importorskip("lancedb")
    monkeypatch.setattr(backends, "APPROXIMATE_ROWS", 300)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((600, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.save(tmp_path / "vectors.npy", vectors)
    names = [f"{row}.png" for row in range(600)]
    zeros = [0] * 600
    table: dict[str, Sequence[Any]] = {
        "path": names, "size": zeros, "mtime": zeros, "content": names
    }  # fmt: skip
    checked = tmp_path / "vectors.npy", [block_checksum(vectors)]
    write_index(tmp_path, tmp_path, ("m", "m-1", ""), table, checked, {}, 1)
    copy = copy_to_lance(open_index(tmp_path), str(tmp_path / "lance"))
    assert len(copy.table.list_indices()) == 1
    recall = measure_recall(copy, vectors)
    assert 0.5 < recall <= 1.0
    nearest = copy.search(vectors[:20], 1)
    assert (nearest.rows[:, 0] == np.arange(20)).mean() > 0.8
    write_photos(tmp_path / "photos", 12)
    result = cli(
        "index", str(tmp_path / "photos"), "--model", "tiny-clip", "--device", "cpu",
        "--lance", str(tmp_path / "other"),
    )  # fmt: skip
    assert result.status == 0
    assert "100.0% of the exact 10 nearest" in result.out
