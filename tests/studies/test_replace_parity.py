"""The study of the table's parity: it runs, and says what it missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from studies.replace_parity import ELSEWHERE, INSIDE, main


def write(root: Path, rows: dict[str, list[tuple[str, str, str]]]) -> None:
    for half, triples in rows.items():
        for name, place in (("original", 0), ("hard_positive", 2)):
            content = [
                {"image_id": "1", "image_path": "data/VG_100K/1.jpg", "true_caption": row[place],
                 "false_caption": row[1]}
                for row in triples
            ]  # fmt: skip
            (root / f"replace_{half}_{name}.json").write_text(json.dumps(content))


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {
        "relations": [("mop in shed", "mop out of shed", "mop within shed")],
        "attributes": [
            ("red gate ON blue shed", "red gate ON tan shed", "crimson gate ON blue shed"),
            ("covered red gate", "covered tan gate", "covecrimson crimson gate"),
            ("wet quay", "dry quay", "damp quay"),
        ],
    })  # fmt: skip
    main(["--root", str(tmp_path)])
    told = capsys.readouterr().out
    assert "4 rows" in told
    assert "relation 100.00 %, attribute 33.33 %, all 50.00 %" in told
    assert f"1 × {ELSEWHERE}" in told
    assert f"1 × {INSIDE}" in told
    main(["--root", str(tmp_path), "--json"])
    whole = json.loads(capsys.readouterr().out)
    assert len(whole["misses"]) == 2
    assert whole["rates"]["caption alone"]["attribute"] == pytest.approx(2 / 3)
    printed = {swap["caption"]: swap for swap in whole["swaps"]}
    assert sum(swap["printed"] == swap["ours"] for swap in printed.values()) >= 6
