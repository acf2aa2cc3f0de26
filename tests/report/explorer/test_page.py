"""The page of a run in a real browser: filters, order, keys, enlarging, tables, hostile texts."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrapose.report.explorer.queries import ExampleQuery, find_rows
from contrapose.report.explorer.server import ExplorerServer
from contrapose.report.explorer.table import ExampleTable
from contrapose.report.html import build_report
from tests.report.explorer.browser import HOSTILE, SIZE, Tab, make_runs

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.browser
expect = playwright.expect
RUNS = make_runs()
TABLE = ExampleTable(RUNS)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(build_report(RUNS, folder="runs/a").page, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    visit = Tab(browser, address, viewport={"width": 1100, "height": 800})
    yield visit
    visit.close()


def wanted(count: int = 24, **words: Any) -> list[str]:
    rows = find_rows(TABLE, ExampleQuery(**words)).rows[:count]
    return [TABLE.keys[row][1] for row in rows.tolist()]


def test_filters_agree_with_the_table_and_counts_are_true(tab: Tab) -> None:
    page = tab.page
    total = SIZE + 6
    assert f"{total} of {total} examples" in tab.status()
    assert tab.ids() == wanted()
    page.select_option("#x-outcome", "w")
    assert tab.ids() == wanted(outcome="w")
    wrong = len(wanted(1000, outcome="w"))
    assert f"{wrong} of {total} examples" in tab.status()
    assert f"wrong ({wrong})" in page.locator("#x-outcome").inner_text()
    page.select_option("#x-b", "1")
    page.select_option("#x-outcome", "right-wrong")
    pairs = wanted(b=1, outcome="right-wrong")
    assert tab.ids() == pairs
    assert page.locator("article.example").first.locator(".badge").all_inner_texts() == [
        "right", page.locator("article.example .badge").nth(1).inner_text(),
    ]  # fmt: skip
    page.select_option("#x-sort", "loss")
    assert tab.ids() == wanted(b=1, outcome="right-wrong", sort="loss")
    page.select_option("#x-outcome", "")
    page.select_option("#x-part", "place")
    page.select_option("#x-sort", "close")
    assert tab.ids() == wanted(b=1, part="place", sort="close")
    page.select_option("#x-part", "")
    page.select_option("#x-tag", label="kind: odd (30)")
    assert tab.ids() == wanted(b=1, tag="kind", value="odd", sort="close")
    # The address keeps the query.
    page.reload()
    assert tab.ids() == wanted(b=1, tag="kind", value="odd", sort="close")
    page.select_option("#x-a", "1")
    page.select_option("#x-tag", "")
    assert tab.ids() == wanted(a=1, sort="close")
    page.select_option("#x-outcome", "s")
    expect(page.locator("article.example")).to_contain_text("skipped: the image is missing")


def test_text_more_and_keys(tab: Tab) -> None:
    page = tab.page
    page.locator("#x-more").click()
    expect(page.locator("article.example")).to_have_count(48)
    page.keyboard.press("/")
    page.keyboard.type("CUBE 17 ")
    expect(page.locator("article.example")).to_have_count(1)
    assert tab.ids() == ["swap/17"]
    # The words that differ are marked, and no others.
    assert page.locator("article.example mark").all_inner_texts() == ["red", "blue"]
    page.keyboard.press("Escape")
    expect(page.locator("article.example")).to_have_count(24)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    focused = "document.activeElement === document.querySelectorAll('article.example')[1]"
    assert page.evaluate(focused)
    page.keyboard.press("Enter")
    expect(page.locator("#x-dialog")).to_be_visible()
    names = wanted()
    assert names[1] in page.locator("#x-title").inner_text()
    page.keyboard.press("ArrowRight")
    assert names[2] in page.locator("#x-title").inner_text()
    page.keyboard.press("k")
    page.keyboard.press("ArrowLeft")
    assert names[0] in page.locator("#x-title").inner_text()
    page.keyboard.press("Escape")
    expect(page.locator("#x-dialog")).not_to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#x-help")).to_contain_text("equivariance")
    page.keyboard.press("Escape")
    expect(page.locator("#x-help")).not_to_be_visible()


def test_enlarged_example_has_matrix_equivariance_and_explanation(tab: Tab) -> None:
    page = tab.page
    page.select_option("#x-part", "place")
    page.select_option("#x-sort", "best")
    page.locator("article.example").first.click()
    detail = page.locator("#x-detail")
    assert detail.locator("img").count() == 2
    matrix = detail.locator("table.matrix").first
    cells = [line.split("\t") for line in matrix.inner_text().splitlines()]
    assert cells[1:] == [["A", "2.000▴◂", "1.000"], ["B", "0.500", "3.000▴◂"]]
    spread = TABLE.runs[0].spread
    e_text, e_image = -1.5 / spread, -0.5 / spread
    words = detail.locator("figcaption").first.inner_text().replace("−", "-")
    assert f"e text {e_text:.2f}, image {e_image:.2f} sd" in words
    command = detail.locator("pre.command").inner_text()
    assert command.startswith(
        "contrapose explain tiny-clip --image image.png --text 'a cat on a mat'"
    )
    assert "--against 'a mat on a cat' --score itc --out runs/a/explanations/" in command
    link = detail.locator("a.explanation").get_attribute("href")
    assert link.startswith("explanations/")
    page.locator("#x-close").click()
    expect(page.locator("#x-dialog")).not_to_be_visible()


def test_tables_sort_and_copy_and_contents_lead_to_sections(tab: Tab) -> None:
    page = tab.page
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    section = page.locator("section", has=page.locator("h2", has_text="By part"))
    table = section.locator(".scroll > table").first
    before = table.locator("tbody th").all_inner_texts()
    table.locator("thead th").first.click()
    table.locator("thead th").first.click()
    names = table.locator("tbody tr:not(.total) th").all_inner_texts()
    assert names == sorted(names, reverse=True) != before
    number = table.locator("thead th").last
    number.click()
    values = table.locator("tbody tr:not(.total) td:last-child").all_inner_texts()
    shares = [float(value.split()[0]) for value in values if value[0].isdigit()]
    assert shares == sorted(shares, reverse=True)
    section.locator("button.csv").first.click()
    expect(section.locator("button.csv").first).to_have_text("copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    lines = list(csv.reader(copied.splitlines()))
    assert lines[0][0] == table.locator("thead th").first.inner_text().strip(" ▴▾")
    assert [line[0] for line in lines[1:]] == table.locator("tbody th").all_inner_texts()
    links = page.locator("nav.contents a")
    assert {"In short", "Examples", "Equivariance", "How it was made"} <= set(
        links.all_inner_texts()
    )
    links.get_by_text("Examples", exact=True).click()
    assert page.url.endswith("#examples")


def test_hostile_texts_run_nothing(tab: Tab) -> None:
    page = tab.page
    page.fill("#x-text", "<IMG SRC")
    expect(page.locator("article.example")).to_have_count(1)
    page.locator("article.example").click()
    assert HOSTILE in page.locator("#x-title").inner_text()
    assert HOSTILE in page.locator("#x-detail ol.captions").inner_text()
    assert page.locator("#x-detail img[src=x]").count() == 0
    words = shlex.split(page.locator("#x-detail pre.command").inner_text())
    assert words[words.index("--image") + 1] == str(Path(f"{HOSTILE}.png"))
    assert words[words.index("--text") + 1] == HOSTILE
    assert page.locator("script").count() == 3
    page.evaluate(
        """() => {
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=document.title=1>");
            const script = document.createElement("script");
            script.textContent = "document.title = 'taken'";
            document.body.append(script);
        }"""
    )
    for _ in range(600):  # the browser says so when it gets to it
        if sum("Content Security Policy" in error for error in tab.errors) >= 2:
            break
        page.wait_for_timeout(100)
    assert page.title() not in ("taken", "1")
    assert sum("Content Security Policy" in error for error in tab.errors) >= 2
    tab.errors.clear()  # what was refused on purpose


def test_page_of_the_server_agrees_with_the_table(browser: Any) -> None:
    with ExplorerServer(RUNS) as server:
        visit = Tab(browser, server.url, viewport={"width": 1100, "height": 800})
        page = visit.page
        assert f"{SIZE + 6} of {SIZE + 6} examples" in visit.status()
        assert visit.ids() == wanted()
        assert page.locator("#x-b").input_value() == "1"  # two runs stand side by side
        page.locator("#x-more").click()
        expect(page.locator("article.example")).to_have_count(48)
        with page.expect_response("**/api/examples?*"):
            page.select_option("#x-outcome", "right-wrong")
        expect(page.locator("#x-status")).to_contain_text(
            f"{len(wanted(100, b=1, outcome='right-wrong'))} of"
        )
        assert visit.ids() == wanted(b=1, outcome="right-wrong")
        page.locator("article.example").first.click()
        image = page.locator("#x-detail img").first
        expect(image).to_have_js_property("complete", True)
        assert image.evaluate("image => image.naturalWidth") > 0
        assert "/image/" in str(image.get_attribute("src"))
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.fill("#x-text", "<img SRC")
        expect(page.locator("article.example .missing")).to_have_text("the image cannot be opened")
        assert all("404" in error for error in visit.errors)
        visit.errors.clear()
        visit.close()


def test_a_phone_shows_all_without_scrolling_sideways(browser: Any, address: str) -> None:
    visit = Tab(browser, address, viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = visit.page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.select_option("#x-b", "1")
    page.locator("article.example").first.click()
    expect(page.locator("#x-dialog")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    visit.close()
