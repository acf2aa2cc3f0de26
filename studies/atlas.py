"""Atlas of public scores: every model with intervals, ties and tiers, and what tables conceal.

    python -m studies.atlas ../shared/data           writes docs/atlas.md and docs/atlas/*.svg
    python -m studies.atlas ../shared/data --check   exits with 1 where the page is not up to date

The scores are those that the benchmarks' authors and other papers released, one row an item. They
are read from the folder and stay there: the page holds figures and drawings only.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from contrapose.files import write_text
from studies.atlas_ratings import report_ratings
from studies.atlas_sections import (
    report_bivlc,
    report_eqben,
    report_predicate_noun,
    report_valse,
    report_vsr,
    report_winoground,
)

DOCS = Path(__file__).resolve().parents[1] / "docs"

INTRODUCTION = """# Atlas of public scores

Read this page for what released per-item scores say once they have intervals, chance levels, ties
and paired tests, and for what the published tables of the same scores do not show. It is made by
one command, `python -m studies.atlas DATA`, from the score files that authors published; none of
them is in this repository. Values are in %, 95 % intervals in brackets. A **tier** holds models
that no paired test tells apart (Holm, 5 %). A tie is never a win. Every figure is what
`contrapose metrics BENCHMARK --scores FILE --resamples 2000` prints, with `--root` where
annotations are here; tests have 10,000 resamples."""

Report = Callable[[Path, Path | None], str]

SECTIONS: Mapping[str, Report] = {
    "winoground": report_winoground,
    "valse": report_valse,
    "eqben": report_eqben,
    "vsr": report_vsr,
    "predicate-noun": report_predicate_noun,
    "bivlc": report_bivlc,
    "ratings": report_ratings,
}


def build_section(name: str, data: Path, charts: Path | None = None) -> str:
    """Section of the page; its drawings are written where a folder is given."""
    return re.sub(r"(\n- [^\n]*)\n(?=\n- )", r"\1", SECTIONS[name](data, charts))


def build_page(data: Path, charts: Path | None = None) -> str:
    """Page, with its drawings where a folder is given."""
    return "\n\n".join([INTRODUCTION, *(build_section(n, data, charts) for n in SECTIONS)]) + "\n"


def main() -> int:
    """Write the page and its drawings, or check the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.atlas")
    parser.add_argument("data", type=Path, help="folder of the public score files")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if old")
    options = parser.parse_args()
    charts = None if options.check else DOCS / "atlas"
    page = build_page(options.data, charts)
    path = DOCS / "atlas.md"
    if options.check:
        old = not path.is_file() or path.read_text(encoding="utf-8") != page
        print("old" if old else "up to date")
        return int(old)
    write_text(path, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
