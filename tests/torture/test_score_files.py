"""Fuzzing of score files up to the metrics: every layout, with annotations, priors and tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.scores.files import detect_benchmark
from contrapose.scores.layouts import LAYOUTS
from tests.torture.conftest import Tally
from tests.torture.mutations import ROUNDS, WHOLE, fuzz, write
from tests.torture.test_readers import BENCHMARKS, COCO, RATED, npy

TURNS = ROUNDS // 2 if WHOLE else 2
Reader = Callable[[Path], object]


def annotation_files(name: str) -> dict[str, Any]:
    """Annotation files of a benchmark, below `data`."""
    return {f"data/{file}": value for file, value in BENCHMARKS[name][1].items()}


def measured(benchmark: str, file: str, **options: Any) -> Reader:
    """Reader that measures a score file; options that name files are paths below the root."""

    def read(root: Path) -> None:
        files = {"root", "prior", "dev_scores"}
        given = {key: root / one if key in files else one for key, one in options.items()}
        if "tags" in options:
            given["tags"] = {"kind": root / options["tags"]}
        plain = root / file.partition("@")[0]
        if plain.suffix:
            detect_benchmark(plain)
        run = cp.measure(str(root / file), benchmark, partial=True, resamples=100, **given)
        assert run.to_frame() is not None

    return read


def rows_of(ids: range, *values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": i, **value} for i in ids for value in values]


WINOGROUND = [
    {"label": f"{i}_c{c}_i{j}", "score": 0.1 * i + c * j}
    for i in range(3) for c in (0, 1) for j in (0, 1)
]  # fmt: skip
VALSE_ROWS = [{"label": f"{i}_{role}", "score": 0.5 - 0.1 * (role == "f"), "id": i,
               "instrument": "actant-swap", "piece": "actions"}
              for i in range(3) for role in "cf"]  # fmt: skip
GENERAL: list[dict[str, Any]] = [
    {"example": str(i), "image": j, "text": k, "score": 0.1 * (i + j + k)}
           for i in range(3) for j in (0, 1) for k in (0, 1)]  # fmt: skip
NEGATIVE = [{**row, "score": -1.0 - row["score"]} for row in GENERAL]
POSITIVE = [{**row, "score": 0.1 + row["score"]} for row in GENERAL]
CHOICES = [{"text_score_i0": "True", "text_score_i1": "False", "type": "add", "subtype": "obj",
            "image_score_c0": "True", "image_score_c1": "False"}] * 3  # fmt: skip
JUDGED = [{"id": i, "label": i % 2, "score": 0.1 * i, "relation": "on"} for i in range(12)]
HALLUSION = [
    {"category": "VD", "subcategory": "x", "set_id": "0", "figure_id": str(i), "question_id": "0",
     "visual_input": "1", "gt_answer": "1", "model_prediction": "Yes."} for i in range(3)
]  # fmt: skip
POPE = [{"question": "Is there a cat?", "answer": "Yes, there is.", "label": "yes"}]
MMVP = [{"question_id": i, "prompt": "Is it? (a) open (b) closed", "answer": "(a)",
         "response": "(b)"} for i in (1, 2)]  # fmt: skip
NATURAL = {str(g): {f"q{q}_i{i}": 1 for q in (0, 1) for i in (0, 1)} for g in range(3)}
REPLIES = [{"id": i, "reply": "Yes" if i % 2 else "no", "type": "yes_no"} for i in range(8)]
VILMA = {"0": {"scores": [0.5, 1], "proficiency": [0.1, 0.2]}}
NOUNS = [{"id": i, "prob_target_match": 0.5, "prob_distractor_match": 0.25} for i in range(6)]
PEOPLE = [{"id": i, "result": "1", "pos": "verb", "img_filename": f"{i}.jpg"} for i in range(4)]
RATINGS = {f"{name}_{i}": {**value, "text_id": f"{name}{i}", "bleu": 0.1 * i}
           for i in range(6) for name, value in RATED.items()}  # fmt: skip
TAGGED = {str(i): ["odd", "small"][i % 2] for i in range(3)}
PRIOR = [{"example": str(i), "text": k, "score": -0.1 * (i + k)} for i in range(3) for k in (0, 1)]
SHUFFLED = {
    "data/ann_json_finegrained_random.json": [
        {"image": f"eqbensd/1_{i}.png", "caption": "ab"[c]} for c in (0, 1) for i in (0, 1)
    ],
    "data/private_info.json": [
        {"dataset": "eqbensd", "sample_cnt": 0, "name": f"c{c}i{i}"} for c in (0, 1) for i in (0, 1)
    ],
    "data/private_random_idx.json": [0, 1, 2, 3],
}
PAIRS = np.arange(12.0).reshape(3, 2, 2)

SCORE_FILES: dict[str, tuple[dict[str, Any], Reader]] = {
    "general": ({"s.csv": GENERAL}, measured("winoground", "s.csv")),
    "winoground": ({"s.jsonl": WINOGROUND}, measured("winoground", "s.jsonl")),
    "winoground official": ({"s.json": WINOGROUND},
                            measured("winoground", "s.json", protocol="official")),
    "tags": ({"s.jsonl": WINOGROUND, "t.json": TAGGED},
             measured("winoground", "s.jsonl", tags="t.json", by="kind")),
    "prior": ({"s.csv": NEGATIVE, "p.csv": PRIOR},
              measured("winoground", "s.csv", prior="p.csv", alpha="auto")),
    "prior of probabilities": (
        {"s.csv": POSITIVE, "p.csv": [{**row, "score": 0.5} for row in PRIOR]},
        measured("winoground", "s.csv", prior="p.csv", alpha=0.5, likelihood_as="probability")),
    "prior array": ({"s.npy": npy(-PAIRS), "p.npy": npy(-1 - PAIRS[::-1, 0])},
                    measured("winoground", "s.npy", prior="p.npy", alpha=1.0)),
    "array": ({"s.npy": npy(PAIRS)}, measured("winoground", "s.npy")),
    "folder of arrays": ({"s/ag.npy": npy(PAIRS), "s/sd.npy": npy(PAIRS)}, measured("eqben", "s")),
    "valse": ({"s.jsonl": VALSE_ROWS, **annotation_files("valse")},
              measured("valse", "s.jsonl", root="data", threshold=0.3)),
    "predicate-noun": ({"s.csv": NOUNS}, measured("predicate-noun", "s.csv")),
    "people": ({"s.csv": PEOPLE}, measured("predicate-noun", "s.csv")),
    "bivlc": ({"s.csv": CHOICES}, measured("bivlc", "s.csv")),
    "mmvp": ({"s.jsonl": MMVP}, measured("mmvp", "s.jsonl")),
    "hallusionbench": ({"s.json": HALLUSION}, measured("hallusionbench", "s.json")),
    "pope": ({"s.jsonl": POPE, **annotation_files("pope")},
             measured("pope/popular", "s.jsonl", root="data")),
    "pope alone": ({"s.jsonl": POPE}, measured("pope/popular", "s.jsonl", protocol="official")),
    "naturalbench": ({"s.json": NATURAL}, measured("naturalbench", "s.json")),
    "replies": ({"s.jsonl": REPLIES}, measured("naturalbench", "s.jsonl", protocol="official")),
    "vilma": ({"s.json": VILMA, **annotation_files("vilma")},
              measured("vilma/relations", "s.json", root="data")),
    "svo-probes": ({"s.json": {"a|1": 0.5, "a|2": 0.25}, **annotation_files("svo-probes")},
                   measured("svo-probes", "s.json", root="data")),
    "judgement": ({"s.jsonl": JUDGED, "d.jsonl": JUDGED[:8]},
                  measured("vsr", "s.jsonl", dev_scores="d.jsonl")),
    "ratings": ({"s.json": RATINGS}, measured("tifa160", "s.json@bleu")),
    "gallery": ({"s.npy": npy(np.ones((1, 1))), "data/captions_val2017.json": COCO},
                measured("coco-retrieval", "s.npy", root="data")),
    "composed": ({"s.npy": npy(np.ones((1, 2))), **annotation_files("cirr")},
              measured("cirr", "s.npy", root="data")),
    "submission": ({"s.npy": npy(np.arange(4.0)), **SHUFFLED},
                   measured("eqben", "s.npy", root="data")),
}  # fmt: skip


@pytest.mark.parametrize("name", SCORE_FILES)
def test_score_files(name: str, tmp_path: Path, tally: Tally) -> None:
    files, read = SCORE_FILES[name]
    for file, value in files.items():
        write(tmp_path / file, value, None)
    read(tmp_path)  # so that changes reach the metrics
    tally.add("score files up to the metrics", fuzz(tmp_path, files, read, name, rounds=TURNS))


def test_every_layout_has_a_case() -> None:
    """A new layout of score files needs a case here."""
    assert set(LAYOUTS) <= set(SCORE_FILES)
    assert json.dumps(sorted(LAYOUTS))
