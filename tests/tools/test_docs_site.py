"""Documentation site: reference pages from the program, navigation, and links."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import contrapose as cp
from contrapose.cli.app import VERBS
from tests.conftest import ROOT
from tools.docs_site import (
    GENERATED,
    benchmark_page,
    command_page,
    format_docstring,
    on_config,
    on_page_markdown,
    python_page,
)

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def test_commands_come_from_the_parser() -> None:
    page = command_page()
    for verb in VERBS:
        assert f"## contrapose {verb}\n" in page
    assert "### contrapose build pairs\n" in page
    assert "--against" in page
    assert all(
        line.count("|") - line.count("\\|") == 3 for line in page.splitlines() if "| `" in line
    )


def test_functions_come_from_their_docstrings() -> None:
    page = python_page()
    for name in cp.__all__:
        if callable(getattr(cp, name)):
            assert f"## cp.{name}\n" in page
    assert "| `against` | another caption, to compare with the first. |" in page
    assert "image: PathLike,\n" in page


def test_benchmarks_come_from_their_cards() -> None:
    page = benchmark_page()
    assert all(f"## {name}\n" in page for name in cp.benchmarks())
    assert "Thrush et al., Winoground" in page


def test_docstrings_become_tables_and_code() -> None:
    arguments = "Args:\n    a: one\n        thing | two.\n    b: other.\n\n"
    text = f"Do it.\n\n{arguments}Example:\n    >>> 1\n    1"
    lead, table, code = format_docstring(text)
    assert lead == "Do it."
    assert table.splitlines()[2:] == ["| `a` | one thing \\| two. |", "| `b` | other. |"]
    assert code == "```pycon\n>>> 1\n1\n```"


def test_navigation_holds_every_page_once(tmp_path: Path) -> None:
    for name in ("index.md", "new.md"):
        (tmp_path / name).write_text("# x\n")
    nav = [{"Home": "index.md"}, {"Guide": ["absent.md", {"Deep": ["reference/cli.md"]}]}]
    left = on_config({"docs_dir": str(tmp_path), "nav": nav})["nav"]
    rest = sorted({"new.md", *GENERATED} - {"reference/cli.md"})
    assert left == [
        {"Home": "index.md"},
        {"Guide": [{"Deep": ["reference/cli.md"]}, {"More": rest}]},
    ]


def test_links_out_of_the_docs_become_text() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="studies/README.md"))
    text = "[a](../../studies/verdict.py) [b](../pairs.md#output) [c](#d) [e](https://x.y)"
    kept = "a [b](../pairs.md#output) [c](#d) [e](https://x.y)"
    assert on_page_markdown(text, page) == kept


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)", _without_code(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        if file.is_relative_to(DOCS) and file.relative_to(DOCS).as_posix() in GENERATED:
            continue
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in _anchors(file), f"{target}#{anchor}"


def _without_code(page: Path) -> str:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_issue_templates_and_citation_are_valid() -> None:
    for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(file.read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == cp.__version__
    assert citation["license"] == "Apache-2.0"
