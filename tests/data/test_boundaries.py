"""GEBC's event boundaries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contrapose.data.boundaries import read_boundaries
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

GOOD = {
    "boundary_id": "v_0A",
    "timestamp": 2.0,
    "prev_timestamp": 0,
    "next_timestamp": 3.5,
    "label": "Change of Action",
    "subject": "a man",
    "status_before": "sits",
    "status_after": "stands",
}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value, indent=1))
    return path


def test_boundaries(tmp_path: Path) -> None:
    shot = GOOD | {"subject": None, "status_before": None, "status_after": None}
    path = write(tmp_path / "val.json", {"v": [GOOD, shot | {"boundary_id": "v_1A"}]})
    first, second = read_boundaries(path, StrictProblems())
    assert (first.video, first.time, first.before, first.after) == ("v", 2.0, "sits", "stands")
    assert second.subject == second.before == ""


@pytest.mark.parametrize("bad", [{"timestamp": 9}, {"label": None}, {"timestamp": "soon"}])
def test_malformed(tmp_path: Path, bad: dict[str, object]) -> None:
    path = write(tmp_path / "val.json", {"v": [GOOD | bad, GOOD], "w": 3})
    with pytest.raises(InputError, match=r"val.json, line 2"):
        list(read_boundaries(path, StrictProblems()))
    problems = ProblemList()
    assert len(list(read_boundaries(path, problems))) == 1
    assert len(problems.problems) == 2


def test_real(shared: Path) -> None:
    problems = ProblemList()
    boundaries = list(read_boundaries(shared / "gebc" / "val.json", problems))
    assert not problems.problems
    assert len(boundaries) == 7279
    assert len({boundary.video for boundary in boundaries}) == 2082
    assert len({boundary.id for boundary in boundaries}) == 7279
