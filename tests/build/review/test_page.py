"""The review page in a real Chromium, opened from disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrapose.build.minimal_pairs import MinimalPair, PairImage
from contrapose.build.review.decisions import read_decisions
from contrapose.build.review.page import load_template, write_review_page
from contrapose.build.review.pairs import read_pair_set
from contrapose.errors import InputError
from contrapose.files.pages import escape_json
from tests.build.review.pair_folder import HOSTILE, color_pair, patch, write_set


def hostile_pair() -> MinimalPair:
    images = (PairImage("x/&lt;b&gt;", patch("red")), PairImage("x/a b", patch("blue")))
    return MinimalPair(
        "<i>id</i>",
        images,
        (HOSTILE, "an honest caption"),
        {"kind": "<u>kind</u>", "note": HOSTILE},
    )


def test_data_cannot_leave_its_element() -> None:
    text = escape_json({"caption": HOSTILE})
    assert "<" not in text
    assert "&" not in text
    assert json.loads(text) == {"caption": HOSTILE}
    assert load_template().count("</script>") == 2


def test_a_page_is_not_replaced_unasked(tmp_path: Path) -> None:
    write_set(tmp_path / "set", [color_pair(0)])
    pairs, page = read_pair_set(tmp_path / "set"), tmp_path / "review.html"
    assert write_review_page(pairs, page)["pairs"] == 1
    before = page.read_bytes()
    with pytest.raises(InputError, match="already"):
        write_review_page(pairs, page)
    assert page.read_bytes() == before
    write_review_page(pairs, page, overwrite=True)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_images_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    write_set(tmp_path / "set", [color_pair(0), color_pair(1)])
    next((tmp_path / "set/images").rglob("0_0.png")).write_bytes(b"no image")
    page = tmp_path / "review.html"
    assert write_review_page(read_pair_set(tmp_path / "set"), page)["unreadable"] == 1
    assert "0_0.png: " in page.read_text("utf-8")


class Visit:
    """A tab at the page, which records requests elsewhere and errors of the script."""

    def __init__(self, browser: Any, page: Path, **options: Any):
        self.foreign, self.errors = list[str](), list[str]()
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console", lambda line: self.errors.append(line.text) if line.type == "error" else None
        )
        self.page.on("request", lambda request: self._note(request.url))
        self.folder = page.parent.as_uri()
        self.page.goto(page.as_uri())

    def _note(self, url: str) -> None:
        if not url.startswith((self.folder, "data:", "blob:")):
            self.foreign.append(url)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def count(self) -> str:
        return str(self.page.inner_text("#count"))

    def about(self) -> str:
        return str(self.page.inner_text("#about"))

    def wait_for(self, selector: str, text: str) -> None:
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_contain_text(text)

    def download(self, folder: Path) -> Path:
        with self.page.expect_download() as waiting:
            self.page.click("#save")
        path = folder / str(waiting.value.suggested_filename)
        waiting.value.save_as(path)
        return path

    def close(self) -> None:
        self.context.close()
        assert self.foreign == []
        assert self.errors == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("review")
    pairs = [color_pair(i, margin=str((i * 7) % 10 / 10)) for i in range(10)]
    write_set(folder / "set", [*pairs, hostile_pair()], "mine")
    write_review_page(read_pair_set(folder / "set"), folder / "inline.html")
    write_review_page(read_pair_set(folder / "set"), folder / "beside.html", images="beside")
    return folder


@pytest.mark.browser
def test_keyboard_decisions_download_and_apply(browser: Any, folder: Path, tmp_path: Path) -> None:
    visit = Visit(browser, folder / "inline.html", viewport={"width": 1100, "height": 800})
    page = visit.page
    assert visit.count().startswith("0 of 11")
    visit.press("k", "d", "k", "d")
    assert visit.count() == "4 of 11 decided: 2 kept, 2 dropped"
    assert "5 of 11" in visit.about()
    visit.press("u")
    assert visit.count() == "3 of 11 decided: 2 kept, 1 dropped"
    assert "undecided" in visit.about()
    assert "pair-3" in visit.about()
    visit.press("ArrowLeft", "ArrowLeft")
    assert "dropped" in visit.about()
    assert page.get_attribute("#pair", "class") == "drop"
    visit.press("k", "End")  # a decision can be changed
    assert visit.count() == "3 of 11 decided: 3 kept, 0 dropped"
    visit.press("ArrowRight", "u", "Home", "ArrowLeft")
    assert "1 of 11" in visit.about()
    # The marked words are those that differ.
    assert page.locator("mark").all_inner_texts() == ["red", "green"]
    # What was decided is there after a reload, which begins at the first open pair.
    page.reload()
    assert visit.count() == "3 of 11 decided: 2 kept, 1 dropped"
    assert "pair-3" in visit.about()
    decisions = read_decisions(visit.download(tmp_path), read_pair_set(folder / "set"))
    assert decisions.keep == {"pair-0", "pair-2"}
    assert decisions.drop == {"pair-1"}
    visit.close()


@pytest.mark.browser
def test_filters_order_and_load(browser: Any, folder: Path, tmp_path: Path) -> None:
    visit = Visit(browser, folder / "inline.html", viewport={"width": 1100, "height": 800})
    page = visit.page
    page.select_option("#kind", "odd")
    assert "1 of 5" in visit.about()
    page.select_option("#order", "score")
    assert "score 0.100" in visit.about()
    page.select_option("#state", "open")
    visit.press("d")  # the focus is in a list, and letters decide all the same
    assert "1 of 4" in visit.about()
    assert "score 0.300" in visit.about()
    visit.press("u")
    assert "1 of 5" in visit.about()
    visit.press("d", "k")
    page.select_option("#state", "drop")
    assert "1 of 1" in visit.about()
    page.select_option("#state", "all")
    page.select_option("#kind", "")
    page.locator("#score").evaluate(
        "(slider) => { slider.value = '0.25'; slider.dispatchEvent(new Event('input')); }"
    )
    assert "of 3" in visit.about()
    page.select_option("#kind", "<u>kind</u>")
    assert page.is_visible("#empty")
    assert page.is_disabled("#keep")
    visit.press("k")
    assert visit.count() == "2 of 11 decided: 1 kept, 1 dropped"
    # Decisions travel to another browser by their file; others are refused.
    saved = visit.download(tmp_path)
    other = Visit(browser, folder / "beside.html")
    other.page.set_input_files("#load", saved)
    other.wait_for("#count", "2 of 11 decided")
    wrong = tmp_path / "wrong.json"
    wrong.write_text(saved.read_text().replace('"build": "', '"build": "0'))
    other.page.set_input_files("#load", wrong)
    other.wait_for("#message", "another build")
    wrong.write_text("<b>")
    other.page.set_input_files("#load", wrong)
    other.wait_for("#message", "JSON")
    assert other.count().startswith("2 of 11")
    other.close()
    visit.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["inline", "beside"])
def test_hostile_texts_stay_text(browser: Any, folder: Path, name: str) -> None:
    visit = Visit(browser, folder / f"{name}.html")
    visit.press("End")
    assert "<i>id</i>" in visit.about()
    assert visit.page.locator("figcaption").first.inner_text().startswith("</script><img src=x")
    assert "an honest caption" in visit.page.locator("figcaption").last.inner_text()
    assert visit.page.title() == "Review: edits: set"
    sizes = visit.page.locator("figure img").evaluate_all(
        "(list) => Promise.all(list.map(async (image) => { await image.decode(); "
        "return image.naturalWidth; }))"
    )
    assert sizes == [24, 24]
    visit.close()


@pytest.mark.browser
def test_phone_buttons_and_swipes(browser: Any, folder: Path) -> None:
    visit = Visit(
        browser, folder / "inline.html", viewport={"width": 390, "height": 844}, has_touch=True,
        is_mobile=True, color_scheme="dark",
    )  # fmt: skip
    page = visit.page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for name in ("keep", "drop", "undo", "back", "next"):
        box = page.locator(f"#{name}").bounding_box()
        assert box["height"] >= 40
        assert box["y"] + box["height"] <= 844
    page.tap("#keep")
    page.tap("#drop")
    assert visit.count() == "2 of 11 decided: 1 kept, 1 dropped"
    page.tap("#undo")
    swipe = """([from, to]) => {
        const area = document.getElementById("pair");
        const point = (x) => [new Touch({ identifier: 1, target: area, clientX: x, clientY: 400 })];
        area.dispatchEvent(new TouchEvent("touchstart", { touches: point(from) }));
        area.dispatchEvent(new TouchEvent("touchend", { changedTouches: point(to) }));
    }"""
    page.evaluate(swipe, [300, 100])
    assert visit.count() == "2 of 11 decided: 1 kept, 1 dropped"
    page.evaluate(swipe, [100, 300])
    page.evaluate(swipe, [100, 130])  # too short
    assert visit.count() == "3 of 11 decided: 2 kept, 1 dropped"
    visit.close()


@pytest.mark.browser
def test_without_storage_the_page_still_works(browser: Any, folder: Path) -> None:
    context = browser.new_context()
    context.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })"
    )
    page = context.new_page()
    page.goto((folder / "inline.html").as_uri())
    page.keyboard.press("k")
    assert page.inner_text("#count").startswith("1 of 11")
    assert "download" in page.inner_text("#message")
    context.close()
