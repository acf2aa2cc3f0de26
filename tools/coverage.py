"""Coverage tables: which benchmarks there are, and which known ones are not.

    python tools/coverage.py          writes the tables of docs/benchmarks.md
    python tools/coverage.py --check  exits with 1 where they are not up to date

A table stands between two marks, `<!-- NAME: python tools/coverage.py -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from contrapose.api.catalog import benchmarks, load_benchmark
from contrapose.data import Suite
from contrapose.files import write_text
from contrapose.report.benchmarks import benchmark_row, format_level

ROOT = Path(__file__).resolve().parents[1]

SHAPES = {
    "choice": "one image, n captions, one right",
    "foil": "one image, n captions, one right",
    "sets": "one image, n captions, one right",
    "triple": "one image; a caption, a paraphrase and a hard negative",
    "pairs": "2 images × 2 captions",
    "images": "one caption, n images",
    "probes": "one caption, n images",
    "judgement": "one image, one caption: yes or no",
    "questions": "questions on images: yes or no, A or B",
    "question_groups": "questions on images: yes or no, A or B",
    "retrieval": "galleries and classes",
    "adversarial": "galleries and classes",
    "classes": "galleries and classes",
    "edits": "an image and a change → an image",
    "composed": "an image and a change → an image",
    "boundaries": "videos",
    "proficiency": "videos",
    "ratings": "human ratings",
}
"""Row of the table by shape for each family of benchmarks; others stand under their own names."""

ON_VIDEOS = ("vitatecs",)
"""Benchmarks of a shape of images whose images are videos."""


class Missing(NamedTuple):
    """Known benchmark that has no reader: its name here if it had one, and the reason."""

    title: str
    reason: str


NO_FILES = "no annotation file in its public repository"
NOT_MINIMAL = "no minimal pairs: needs other metrics"

MISSING: Mapping[str, Missing] = {
    "conme": Missing("ConMe", "on the hub only; its files were not seen"),
    "countercurate": Missing("CounterCurate (Flickr30k-CF)", "on the hub only; files not seen"),
    "rocketscience": Missing("RocketScience", "on the hub only; its files were not seen"),
    "cola-single": Missing("COLA, single objects", "average precision over a label list: no pairs"),
    "crepe-systematicity": Missing("CREPE, systematicity", "splits by training set; no reader yet"),
    "fg-ovd": Missing("FG-OVD", "boxes of a detector, mAP: " + NOT_MINIMAL),
    "bla": Missing("BLA", "two true and two false captions, on Dropbox; files not seen"),
    "dci": Missing("DCI, sDCI", "summaries of long captions; files not seen"),
    "docci": Missing("DOCCI", "long captions for retrieval: use your own gallery"),
    "pug": Missing("PUG: SPAR", "rendered classes, 43,560 images; files not seen"),
    "winoground-t2i": Missing("Winoground-T2I", "pairs of texts for generators, without images"),
    "colorfoil": Missing("Compun, ColorFoil, COVR, SNARE, HNC, ControlledImCaps", NO_FILES),
    "mmcomposition": Missing("MMComposition, MLLM-CompBench, COCO-Counterfactuals", NO_FILES),
    "half-truths": Missing(
        "half-truths (CS-CLIP), Auto-Comp, COMPASS, CounterBench", "2026; files not seen"
    ),
    "tempcompass": Missing(
        "TempCompass, TOMATO, TemporalBench", "questions on videos: " + NOT_MINIMAL
    ),
    "vinoground": Missing("Vinoground, VELOCITI", "videos on the hub; files not seen"),
    "videocon": Missing("VideoCon, CameraBench, T2VScore", "entailment of videos: " + NOT_MINIMAL),
    "icir": Missing(
        "i-CIR, PinPoint, ImageNet-R, NICO++, LTLL, PatternCom",
        "composed retrieval of other domains; no reader yet",
    ),
}


def coverage_table() -> str:
    """Markdown table of every benchmark."""
    lines = [
        "| name | shape | examples | chance % | licence | size | files | errata | what it asks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in benchmarks():
        row = benchmark_row(load_benchmark(name))
        cells = (
            f"`{name}`", row.shape, f"{row.n:,}" if row.n else "–", format_level(row.chance),
            row.license, row.download, row.files, "yes" if row.errata else "", row.title,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def errata_table() -> str:
    """Markdown table of the errata and of the authors' rules that differ from ours."""
    lines = ["| benchmark | official rule | errata |", "|---|---|---|"]
    same: dict[tuple[str, str], list[str]] = {}
    for name in benchmarks():
        entry = load_benchmark(name)
        cards = (
            [part.card for part in entry.parts.values()]
            if isinstance(entry, Suite)
            else [entry.card]
        )
        official = "; ".join(dict.fromkeys(card.official for card in cards if card.official))
        errata = "; ".join(dict.fromkeys(card.errata for card in cards if card.errata))
        if official or errata:
            same.setdefault((official, errata), []).append(f"`{name}`")
    for (official, errata), names in same.items():
        cells = (", ".join(names), official.replace("|", "\\|"), errata.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def missing_table() -> str:
    """Markdown table of known benchmarks without a reader."""
    lines = ["| benchmark | why not |", "|---|---|"]
    lines += [f"| {one.title} | {one.reason} |" for one in MISSING.values()]
    return "\n".join(lines)


def shapes_table() -> str:
    """Markdown table of the names of benchmarks by shape."""
    by_shape: dict[str, list[str]] = {}
    for name in benchmarks():
        entry = load_benchmark(name)
        card = next(iter(entry.parts.values())).card if isinstance(entry, Suite) else entry.card
        made = isinstance(entry, Suite) and all(part.generated for part in entry.parts.values())
        row = "built in, 17 kinds of change" if made else SHAPES.get(card.family, card.family)
        row = "videos" if name in ON_VIDEOS else row
        by_shape.setdefault(row, []).append(f"`{name}`")
    order = list(dict.fromkeys([*SHAPES.values(), *by_shape]))
    lines = ["| shape | benchmarks |", "|---|---|"]
    lines += [f"| {row} | {', '.join(by_shape[row])} |" for row in order if row in by_shape]
    return "\n".join(lines)


TABLES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "docs/benchmarks.md": {
        "shapes": shapes_table,
        "coverage": coverage_table,
        "errata": errata_table,
        "missing": missing_table,
    },
}


def fill(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Text of a page with its tables brought up to date."""
    for name, build in tables.items():
        start = f"<!-- {name}: python tools/coverage.py -->"
        pattern = re.compile(f"{re.escape(start)}\n.*?<!-- end -->", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"there is no place for the table {name!r}: {start}")
        filled = f"{start}\n{build()}\n<!-- end -->"
        text = pattern.sub(lambda _, filled=filled: filled, text)  # type: ignore[misc]
    return text


def main() -> int:
    """Write the tables, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if old")
    check = parser.parse_args().check
    old = []
    for name, tables in TABLES.items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        filled = fill(text, tables)
        if filled != text:
            old.append(name)
            if not check:
                write_text(path, filled)
    print(f"{'old' if check else 'written'}: {', '.join(old) or 'nothing'}")
    return int(check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
