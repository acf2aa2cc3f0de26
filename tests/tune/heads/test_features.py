"""Cached features: what is read, what is refused, and in which order captions come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.tune.heads import Features, read_features
from contrapose.tune.heads.features import count_batches, draw_batches
from tests.tune.heads.made import made


def write(folder: Path, split: str, features: Features, *, owners: bool = True) -> None:
    np.save(folder / f"{split}_images.npy", features.images)
    np.save(folder / f"{split}_texts.npy", features.texts)
    if owners:
        np.save(folder / f"{split}_image_of_text.npy", features.image_of_text.astype(np.int32))


def test_features_are_read(tmp_path: Path) -> None:
    features = made(6, 2)
    write(tmp_path, "train", features)
    found = read_features(tmp_path, "train")
    assert np.array_equal(found.images, features.images)
    assert found.pairs[3].tolist() == [1, 3]
    write(tmp_path, "test", features, owners=False)
    assert np.array_equal(read_features(tmp_path, "test").pairs, found.pairs)
    part = found.of_images(np.array([1, 4]))
    assert part.image_of_text.tolist() == [0, 0, 1, 1]
    assert np.array_equal(part.texts, features.texts[[2, 3, 8, 9]])


@pytest.mark.parametrize(
    ("images", "texts", "owners", "said"),
    [
        (np.ones((0, 3)), np.ones((0, 3)), np.zeros(0, int), "images must be"),
        (np.ones(3), np.ones((3, 2)), np.arange(3), "images must be"),
        (np.ones((2, 3)), np.full((2, 3), np.nan), np.arange(2), "texts: row 0 has a NaN"),
        (np.array([[1.0], [np.inf]]), np.ones((2, 3)), np.arange(2), "images: row 1"),
        (np.ones((2, 3)), np.ones((3, 3)), np.arange(2), "one number a caption"),
        (np.ones((2, 3)), np.ones((2, 3)), np.array([0, 2]), "must lie in 0 … 1"),
        (np.ones((2, 3)), np.ones((2, 3)), np.array([0, -1]), "must lie in"),
        (np.ones((3, 3)), np.ones((2, 3)), np.array([0, 2]), "image 1 has no caption"),
        (np.ones((2, 3), int), np.ones((2, 3)), np.arange(2), "floating point"),
        (np.ones((2, 3)), np.ones((2, 3)), np.arange(2.0), "whole numbers"),
    ],
)
def test_features_that_are_refused(
    tmp_path: Path,
    images: NDArray[Any],
    texts: NDArray[Any],
    owners: NDArray[Any],
    said: str,
) -> None:
    with pytest.raises(InputError, match=said):
        Features(images, texts, owners)
    for name, array in (("images", images), ("texts", texts), ("image_of_text", owners)):
        np.save(tmp_path / f"train_{name}.npy", array)
    with pytest.raises(InputError, match=f"train features: .*{said}"):
        read_features(tmp_path, "train")


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_features(tmp_path, "train")
    write(tmp_path, "train", made(3, 2))
    np.save(tmp_path / "train_texts.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"not a readable .npy array"):
        read_features(tmp_path, "train")
    (tmp_path / "train_texts.npy").write_bytes(b"")
    with pytest.raises(InputError, match=r"not a readable .npy array"):
        read_features(tmp_path, "train")
    np.save(tmp_path / "train_texts.npy", np.float32(1))
    with pytest.raises(InputError, match="one number and no array"):
        read_features(tmp_path, "train")
    (tmp_path / "train_image_of_text.npy").unlink()
    np.save(tmp_path / "train_texts.npy", np.ones((4, 3)))
    with pytest.raises(InputError, match="3 images and 4 captions"):
        read_features(tmp_path, "train")


@given(
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=30),
    size=st.integers(2, 40),
    epochs=st.integers(1, 4),
    seed=st.integers(0, 5),
)
def test_every_caption_comes_once_an_epoch(
    counts: list[int], size: int, epochs: int, seed: int
) -> None:
    owners = np.repeat(np.arange(len(counts)), counts)
    found = list(draw_batches(owners, size, epochs, seed))
    size = min(size, len(owners))
    assert len(found) == count_batches(len(owners), size, epochs)
    assert all(len(rows) == size for rows in found)
    seen = np.bincount(np.concatenate(found), minlength=len(owners))
    left_out = len(owners) * epochs - size * len(found)
    assert left_out < size
    assert seen.max() <= epochs
    assert (epochs - seen).sum() == left_out
    again = list(draw_batches(owners, size, epochs, seed))
    assert all(np.array_equal(one, other) for one, other in zip(found, again, strict=True))


@given(each=st.integers(1, 4), size=st.integers(2, 20), seed=st.integers(0, 5))
def test_no_image_stands_twice_where_there_are_enough(each: int, size: int, seed: int) -> None:
    owners = np.repeat(np.arange(2 * size), each)
    for rows in draw_batches(owners, size, 3, seed):
        assert len(set(owners[rows].tolist())) == size
