"""Columns of image references: as lists of references, with the paths of `safe_join`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.data.ref_columns import FileColumn, are_plain_names, keys_of, take_refs
from contrapose.data.text_columns import TextColumn
from contrapose.data.video import VIDEO_SUFFIXES
from contrapose.data.video_clips import VideoRef
from contrapose.files import MalformedError

NAMES = st.text(st.sampled_from("aB:./\\ \0\n\u3000é"), max_size=6) | st.sampled_from(
    ["a.mp4", "a.MKV", "a.m\u212av", "videos/a.webm", "a.mp4.png", "mp4", "x" * 300, "...", "a/..."]
)


@settings(deadline=None, max_examples=300)
@given(NAMES)
def test_plain_names_are_paths_as_they_are(name: str) -> None:
    names = TextColumn.of(["plain.png", name])
    if not are_plain_names(names, VIDEO_SUFFIXES):
        return
    for root in (Path("root"), Path("/"), Path("/some/where"), Path(), Path("../up")):
        column = FileColumn(names, root)
        ref = PlainReader(root).build_image(name)
        assert not isinstance(ref, VideoRef)
        assert column[1] == ref
        assert column[:] == list(column) == [PlainReader(root).build_image("plain.png"), ref]
        assert column.paths(0, 2) == [str(other.path) for other in column]


@settings(deadline=None, max_examples=300)
@given(NAMES)
def test_other_names_are_not_plain(name: str) -> None:
    try:
        ref = PlainReader(Path("root")).build_image(name)
    except MalformedError:
        assert not are_plain_names(TextColumn.of([name]), VIDEO_SUFFIXES)
        return
    if isinstance(ref, VideoRef) or str(ref.path) != f"root/{name}":
        assert not are_plain_names(TextColumn.of([name]), VIDEO_SUFFIXES)


@pytest.mark.parametrize("name", ["a.png", "images/a b.png", "a/.b/c..d", "é.png", "ab:c", "1"])
def test_usual_names_are_plain(name: str) -> None:
    assert are_plain_names(TextColumn.of([name]), VIDEO_SUFFIXES)


def test_parts_of_a_column() -> None:
    names = [f"images/{i}.png" for i in range(9)]
    column = FileColumn(TextColumn.of(names), Path("root"))
    refs = list(column)
    assert list(column.span(2, 5)) == column[2:5] == refs[2:5]
    assert list(column.span(7, 20)) == refs[7:]
    assert column.span(2, 5).paths(1, 3) == ["root/images/3.png", "root/images/4.png"]
    positions = np.array([4, 0, 4])
    for some in (column, refs):
        assert list(take_refs(some, positions)) == [refs[4], refs[0], refs[4]]
        assert list(keys_of(some)) == names
    assert isinstance(take_refs(column, positions), FileColumn)
