"""What the panel said of each model of `studies/repair.py`: nothing is taught twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from contrapose.files import write_text
from studies.repair_claims import Line


def once(
    folder: Path | None, asked: object, make: Callable[[], dict[str, Line]]
) -> dict[str, Line]:
    """The lines of what was asked: from the folder where it holds them, made and kept otherwise."""
    if folder is None:
        return make()
    name = hashlib.blake2b(repr(asked).encode(), digest_size=12).hexdigest()
    file = folder / f"{name}.json"
    if file.is_file():
        return {each["name"]: _line(each) for each in json.loads(file.read_text())["lines"]}
    found = make()
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"asked": repr(asked), "lines": [_kept(line) for line in found.values()]}
    write_text(file, json.dumps(whole))
    return found


def _kept(line: Line) -> dict[str, object]:
    return {
        "name": line.name,
        "values": line.values.tolist(),
        "better": line.better,
        "clusters": None if line.clusters is None else line.clusters.tolist(),
        "spread": line.spread,
    }


def _line(kept: dict[str, object]) -> Line:
    groups = kept["clusters"]
    return Line(
        **{  # type: ignore[arg-type]
            **kept,
            "values": np.array(kept["values"], dtype=np.float64),
            "clusters": None if groups is None else np.array(groups, dtype=np.int64),
        }
    )
