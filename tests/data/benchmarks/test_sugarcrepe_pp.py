"""VISLA: the same triples as SugarCrepe++, in two tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import contrapose as cp
from contrapose.data.benchmarks.sugarcrepe_pp import read_visla
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

GENERIC = "filename\tcaption\tsecond positive\tnegative_caption\n"
SPATIAL = (
    "image\tsent1\tsent2\tBest reference (Semantically close)\tReference-2 (Completely irrelevant)"
)


def test_captions_stand_in_the_order_of_a_triple(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Generic_VISLA.tsv").write_text(f"{GENERIC}1.jpg\tright\tsame\twrong\n")
    rows = "2.jpg\tA in B\tB holds A\tA out of B\tother\n3.jpg\tA in B\tB holds A\t\t\n"
    (tmp_path / "Spatial_VISLA.tsv").write_text(f"{SPATIAL}\n{rows}")
    (tmp_path / "coco" / "train2017").mkdir(parents=True)
    (tmp_path / "coco" / "train2017" / "2.jpg").write_bytes(b"")
    generic, spatial = read_visla(tmp_path, StrictProblems())
    assert (generic.id, generic.texts) == ("generic/0", ("right", "wrong", "same"))
    assert generic.match == ((True, False, True),)
    assert generic.images[0].path == tmp_path / "val2017" / "1.jpg"
    assert spatial.texts == ("A in B", "A out of B", "B holds A")
    assert spatial.images[0].path == tmp_path / "coco" / "train2017" / "2.jpg"


@pytest.mark.parametrize("row", ["\ta\tb\tc", "1.jpg\ta\t\tc", "1.jpg\ta\tb", "../1.jpg\ta\tb\tc"])
def test_malformed_rows(row: str, tmp_path: Path) -> None:
    (tmp_path / "Generic_VISLA.tsv").write_text(f"{GENERIC}1.jpg\ta\tb\tc\n{row}\n")
    problems = ProblemList()
    assert len(list(read_visla(tmp_path, problems))) == 1
    assert [problem.line for problem in problems.problems] == [3]


def test_neither_file_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither Generic_VISLA\.tsv"):
        list(read_visla(tmp_path, StrictProblems()))


def test_as_released(shared: Path) -> None:
    examples = list(read_visla(shared / "visla", StrictProblems()))
    assert Counter(e.tags["subset"] for e in examples) == {"generic": 973, "spatial": 640}
    assert sum(e.texts[1] in (e.texts[0], e.texts[2]) for e in examples) == 2
    scores = np.tile([2.0, 1.0, 3.0], (len(examples), 1, 1))
    run = cp.measure(scores, "visla", root=shared / "visla", resamples=100)
    assert run.metrics["augmented_accuracy"].value == 1
