"""Fuzzing of released annotation and score files: their first records, changed, by every reader."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.build.video.boundaries import read_events
from contrapose.data import Suite, find_benchmark
from contrapose.errors import ContraposeError
from contrapose.files import ProblemList, StrictProblems
from contrapose.scores.files import add_tags, detect_benchmark, read_scores
from contrapose.scores.outcomes import read_outcomes
from tests.torture.conftest import Tally
from tests.torture.mutations import ROUNDS, fuzz, write
from tests.torture.test_readers import npy

RECORDS = 6
"""Records of a file that are changed; thousands would take longer to write than to read."""

ANNOTATIONS: dict[str, str] = {
    "bivlc": "bivlc",
    "boundaries": "gebc",
    "boundaries-segment": "gebc",
    "circo": "cir/circo",
    "circo-test": "cir/circo",
    "cirr": "cir/cirr",
    "cirr-test": "cir/cirr",
    "cola": "cola",
    "countbench": "countbench",
    "dsg-tifa160": "ratings",
    "fashioniq": "cir/fashioniq",
    "genecis-change-object": "cir/genecis",
    "hard-positives-replace": "hard_positives",
    "imagecode": "imagecode",
    "naturalbench": "naturalbench",
    "negrefcocog": "negrefcocog",
    "predicate-noun": "predicate_noun",
    "seetrue": "ratings",
    "simat": "simat",
    "sugarcrepe": "sugarcrepe",
    "sugarcrepe-pp": "sugarcrepe_pp",
    "tifa160": "ratings",
    "valse": "valse",
    "vilma": "vilma",
    "visla": "visla",
    "vitatecs": "vitatecs",
    "vl-checklist": "vl_checklist",
    "vsr": "vsr/v1",
    "vsr-v2": "vsr/v2",
    "vsr-v2-zeroshot": "vsr/v2",
    "whatsup": "whatsup_questions",
}
"""Benchmark → folder of its released files."""

SCORES: dict[str, tuple[str, ...]] = {
    "winoground": tuple(f"winoground_scores/{name}.jsonl" for name in ("clip", "vilt", "human")),
    "valse": ("valse/scores/clipcap_coco.jsonl", "valse/scores/x-vlm_4m.jsonl"),
    "vsr": tuple(
        f"vsr/v1/scores/{name}_{split}.jsonl"
        for name in ("albef_4m", "blip2_itm_pretrain", "x-vlm_16m")
        for split in ("dev", "test")
    ),
    "predicate-noun": tuple(
        f"predicate_noun/scores/{name}.csv" for name in ("CLIP", "LXMERT", "VILT", "Human")
    ),
    "bivlc": ("bivlc/results/BiVLC_ViT-B-32.csv",),
    "tifa160": ("ratings/tifa160.json",),
    "eqben": tuple(
        f"eqben_fiber/{name}.npy"
        for name in ("ag", "gebc", "kubric_attribute", "kubric_counting", "sd", "youcook2")
    ),
}
"""Benchmark → files of scores of it."""


def cut(path: Path) -> Any:
    """First records of a file, as a value of its format or as bytes."""
    if path.suffix == ".npy":
        return npy(np.load(path)[:RECORDS])
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as stream:
            return [json.loads(line) for line, _ in zip(stream, range(RECORDS), strict=False)]
    if path.suffix in (".csv", ".tsv"):
        with path.open(encoding="utf-8", newline="") as stream:
            head = io.StringIO("".join(line for line, _ in zip(stream, range(40), strict=False)))
        rows = csv.DictReader(head, delimiter="\t" if path.suffix == ".tsv" else ",")
        return [row for row, _ in zip(rows, range(RECORDS), strict=False)]
    if path.suffix == ".json":
        return cut_value(json.loads(path.read_text(encoding="utf-8")))
    return path.read_bytes()[:2000]


def cut_value(value: Any, levels: int = 2) -> Any:
    """First entries of a JSON value's outer lists and objects."""
    if isinstance(value, list):
        return value[:RECORDS]
    if isinstance(value, dict) and levels:
        pairs = list(value.items())[:RECORDS]
        return {key: cut_value(inner, levels - 1) for key, inner in pairs}
    return value


def list_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if (
            path.suffix in (".json", ".jsonl", ".csv", ".tsv", ".txt")
            and "scores" not in path.parts
        ):
            yield path


def read_annotations(name: str, problems: bool, root: Path) -> None:
    """Read a benchmark, or all parts of a suite, strictly or into a list of problems."""
    benchmark = find_benchmark(name)
    parts = benchmark.parts.values() if isinstance(benchmark, Suite) else [benchmark]
    failed = None
    for part in parts:
        try:
            data = part.read(root, ProblemList() if problems else StrictProblems())
            if isinstance(data, Iterable):
                list(data)
        except ContraposeError as error:
            failed = error
    if failed is not None:
        raise failed


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations(name: str, shared: Path, tmp_path: Path, tally: Tally) -> None:
    folder = shared / ANNOTATIONS[name]
    files = {path.relative_to(folder).as_posix(): cut(path) for path in list_files(folder)}
    count = 0
    for problems in (False, True):
        label = f"{name} released{' check' if problems else ''}"
        read = partial(read_annotations, name, problems)
        count += fuzz(tmp_path, files, read, label, rounds=max(2, ROUNDS // 3))
    if name.startswith("boundaries"):
        events = {"val.json": files["val.json"]}
        read_file = lambda root: read_events(root / "val.json", ProblemList())  # noqa: E731
        count += fuzz(tmp_path, events, read_file, f"{name} events")
    tally.add("released annotation files", count)


def read_score_file(name: str, file: str, root: Path) -> None:
    path = root / file
    detect_benchmark(path)
    card = find_benchmark(name).card  # type: ignore[union-attr]
    if path.suffix == ".npy" or read_outcomes(path, card, partial=True) is None:
        answers = read_scores(path, card, None, partial=True)
        if (root / "tags.json").is_file():
            add_tags(answers, root / "tags.json", "kind")


@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str, shared: Path, tmp_path: Path, tally: Tally) -> None:
    count = 0
    for i, file in enumerate(SCORES[name]):
        path = shared / file
        files = {path.name: cut(path)}
        if name == "winoground":
            files["tags.json"] = cut(shared / "winoground_scores/diwan_tags.json")
        folder = tmp_path / str(i)
        read = partial(read_score_file, name, path.name)
        count += fuzz(folder, files, read, file, rounds=max(2, ROUNDS // 3))
    tally.add("released score files", count)


@pytest.mark.parametrize("name", ["cola", "sugarcrepe", "vsr"])
def test_first_records_are_read(name: str, shared: Path, tmp_path: Path) -> None:
    """Without a change the first records are no error, so that changes reach the readers."""
    folder = shared / ANNOTATIONS[name]
    for path in list_files(folder):
        write(tmp_path / path.relative_to(folder), cut(path), None)
    read_annotations(name, False, tmp_path)
