"""The search page in a real browser: clicks, edits, λ, keys, drops, and hostile names."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from PIL import Image

from contrapose.search.searcher import Searcher
from contrapose.search.server import SearchServer
from contrapose.search.writer import IndexRequest, build_index
from tests.search.photos import COLORS, ColorModel, write_photos

HOSTILE = "<img src=x onerror=document.title='taken'>&amp;.png"

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.browser
expect = playwright.expect


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchServer]:
    photos = write_photos(tmp_path_factory.mktemp("photos"), 70)
    Image.new("RGB", (8, 8), (1, 2, 3)).save(photos / HOSTILE)
    model = ColorModel()
    index = build_index(IndexRequest(photos), model).index
    (photos / "black-9.png").write_bytes(b"damaged since")
    with SearchServer(Searcher(index, model, subjects=list(COLORS))) as running:
        yield running


class Visit:
    """A tab at the page, which records requests elsewhere and errors of the script."""

    def __init__(self, browser: object, server: SearchServer, **options: object):
        self.url, self.foreign, self.errors = server.url, list[str](), list[str]()
        self.context = browser.new_context(**options)  # type: ignore[attr-defined]
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url))
        self.page.goto(server.url)
        expect(self.page.locator(".tile").first).to_be_visible()

    def _note(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.foreign.append(url)

    def status(self, *words: str) -> None:
        for word in words:
            expect(self.page.locator("#status")).to_contain_text(word)

    def paths(self) -> list[str]:
        images = self.page.locator(".tile img").all()
        return [str(image.get_attribute("alt")) for image in images]

    def close(self) -> None:
        self.context.close()
        assert self.foreign == []
        assert self.errors == []


@pytest.fixture
def visit(browser: object, server: SearchServer) -> Iterator[Visit]:
    tab = Visit(browser, server, viewport={"width": 1100, "height": 800})
    yield tab
    tab.close()


def colors(paths: list[str]) -> set[str]:
    return {Path(path).name.partition("-")[0] for path in paths}


def drop(visit: Visit, content: bytes, name: str) -> None:
    """Drop a file on the page, as a file manager would."""
    data = visit.page.evaluate_handle(
        """([content, name]) => {
            const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
            const data = new DataTransfer();
            data.items.add(new File([bytes], name, { type: "image/png" }));
            return data;
        }""",
        [base64.b64encode(content).decode(), name],
    )
    visit.page.dispatch_event("body", "drop", {"dataTransfer": data})


def test_click_edit_and_slider(visit: Visit) -> None:
    page = visit.page
    visit.status("60 of 71 images")
    page.locator("#more").scroll_into_view_if_needed()
    visit.status("71 of 71 images")
    expect(page.locator("#more")).to_be_hidden()
    page.locator('.tile:has(img[alt="more/red-0.png"])').click()
    visit.status("by image")
    assert colors(visit.paths()[:5]) == {"red"}
    page.fill("#edit", "red -> blue")
    visit.status("by delta", "calibrated")
    assert colors(visit.paths()[:5]) == {"blue"}
    calibrated = page.input_value("#lambda")
    assert float(calibrated) > 0
    # The slider answers at once, its value is in the address, and `auto` takes it back.
    page.locator("#lambda").evaluate(
        "(slider) => { slider.value = '0'; slider.dispatchEvent(new Event('input')); }"
    )
    expect(page.locator("#status")).not_to_contain_text("calibrated")
    assert colors(visit.paths()[:5]) == {"red"}
    assert "lambda=0" in page.url
    page.click("#auto")
    visit.status("calibrated")
    assert page.input_value("#lambda") == calibrated
    # Why: the parts of the score, on hover.
    tile = page.locator(".tile").first
    expect(tile.locator(".why")).not_to_be_visible()
    tile.hover()
    expect(tile.locator(".why")).to_be_visible()
    expect(tile.locator(".why")).to_contain_text("red → blue")
    # A reload, and the same address elsewhere, show the same.
    before = visit.paths()
    page.reload()
    visit.status("calibrated")
    assert visit.paths() == before
    page.select_option("#fusion", "sum")
    visit.status("by sum")
    assert "fusion=sum" in page.url
    page.go_back()
    visit.status("of 71 images")


def test_the_parts_of_a_score_add_up(visit: Visit) -> None:
    for edit, fusion, parts, adds in (
        ("red -> blue, -white", "delta", ["red → blue", "without white"], True),
        ("-> blue", "sum", ["text"], True),
        ("green, red -> blue", "sum", ["text", "red → blue"], False),
        ("green", "weicom", ["text"], False),
    ):
        query = {"image": "more/red-0.png", "edit": edit, "fusion": fusion, "lambda": "1"}
        visit.page.goto(f"{visit.url}#{urlencode(query)}")
        expect(visit.page.locator(".why").first).to_contain_text(parts[-1])
        visit.status(f"by {fusion}")
        shown = visit.page.locator(".why").evaluate_all(
            "(list) => list.map((why) => Array.from(why.querySelectorAll('.row'), "
            "(row) => [row.firstChild.textContent, row.lastChild.textContent]))"
        )
        lengths = []
        for rows in shown[:8]:
            assert [label.partition(" λ")[0] for label, _ in rows[:-1]] == ["image", *parts]
            assert ("sum ÷" in rows[-1][0]) == adds
            values = [float(value.replace("−", "-")) for _, value in rows]
            lengths.append(sum(values[:-1]) / values[-1])
        assert not adds or lengths == pytest.approx([lengths[0]] * 8, rel=0.01)


def test_keyboard(visit: Visit) -> None:
    page, focused = visit.page, visit.page.locator(".tile:focus img")
    order = visit.paths()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(focused).to_have_attribute("alt", order[1])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    row = page.evaluate(
        "getComputedStyle(document.getElementById('grid')).gridTemplateColumns.split(' ').length"
    )
    expect(focused).to_have_attribute("alt", order[row])
    expect(page.locator(".tile:focus .name")).to_be_visible()
    page.keyboard.press("Enter")
    visit.status("by image")
    expect(page.locator("#preview")).to_have_attribute("alt", order[row])
    expect(page.locator(".tile").first).to_be_focused()
    expect(page.locator(".tile:focus .why")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("white -> green")
    visit.status("by delta")
    assert "/" not in page.input_value("#edit")
    page.keyboard.press("Escape")
    visit.status("of 71 images")
    assert page.input_value("#edit") == ""
    assert "#" not in page.url


def test_drop_and_choose(visit: Visit) -> None:
    page = visit.page
    stream = io.BytesIO()
    Image.new("RGB", (6, 6), (28, 190, 31)).save(stream, "PNG")
    drop(visit, stream.getvalue(), "new.png")
    visit.status("by image")
    assert colors(visit.paths()[:5]) == {"green"}
    expect(page.locator("#preview")).to_be_visible()
    expect(page.locator("#preview")).to_have_js_property("naturalWidth", 6)
    drop(visit, b"no image", "broken.png")
    expect(page.locator("#message")).to_contain_text("not an image")
    assert colors(visit.paths()[:5]) == {"green"}
    page.click("#remove")
    visit.status("of 71 images")
    expect(page.locator("#message")).to_be_hidden()
    files = [{"name": "x.png", "mimeType": "image/png", "buffer": stream.getvalue()}]
    page.set_input_files("#file", files)
    visit.status("by image")


def test_an_open_page_shows_what_was_indexed_since(browser: object, tmp_path: Path) -> None:
    photos, model = write_photos(tmp_path / "photos", 5), ColorModel()
    searcher = Searcher(build_index(IndexRequest(photos), model).index, model)
    with SearchServer(searcher) as running:
        tab = Visit(browser, running, viewport={"width": 900, "height": 700})
        expect(tab.page.locator("#about")).to_contain_text("5 images")
        Image.new("RGB", (8, 8), (220, 30, 30)).save(photos / "red-new.png")
        build_index(IndexRequest(photos), model)
        tab.page.evaluate("window.dispatchEvent(new Event('focus'))")
        expect(tab.page.locator("#about")).to_contain_text("6 images")
        expect(tab.page.locator(".tile")).to_have_count(6)
        Image.new("RGB", (8, 8), (225, 30, 30)).save(photos / "red-newer.png")
        build_index(IndexRequest(photos), model)
        tab.page.fill("#edit", "red")
        expect(tab.page.locator("#about")).to_contain_text("7 images")
        assert "red-newer.png" in tab.paths()
        assert tab.page.locator(".broken").count() == 0
        tab.close()


def test_errors_and_hostile_names(visit: Visit) -> None:
    page = visit.page
    page.fill("#edit", "red -> blue")
    expect(page.locator("#message")).to_have_text("A change needs an image or a text.")
    page.goto(f"{visit.url}#image=..%2Fsecret.png")
    expect(page.locator("#message")).to_contain_text("no such image")
    page.fill("#edit", "")
    page.keyboard.press("Escape")
    expect(page.locator("#message")).to_be_hidden()
    hostile = page.locator(f'.tile:has-text("{HOSTILE}")')
    expect(hostile).to_have_count(1)
    hostile.click()
    visit.status("by image")
    expect(page.locator("#query")).to_have_attribute("title", HOSTILE)
    assert "taken" not in page.title()
    page.reload()
    visit.status("by image")
    expect(page.locator("#query")).to_have_attribute("title", HOSTILE)
    page.fill("#edit", "<b>x</b> -> <i>y</i>")
    visit.status("by delta")
    expect(page.locator(".why").first).to_contain_text("<b>x</b> → <i>y</i>")
    # A file that was damaged since is a tile that says so.
    page.keyboard.press("Escape")
    visit.status("of 71 images")
    page.locator('.tile:has(img[alt="black-9.png"])').scroll_into_view_if_needed()
    expect(page.locator('.tile.broken:has(img[alt="black-9.png"])')).to_have_count(1)


def test_a_phone_in_the_light_and_in_the_dark(browser: object, server: SearchServer) -> None:
    size = {"width": 390, "height": 844}
    visit = Visit(browser, server, viewport=size, has_touch=True, is_mobile=True)
    page = visit.page
    page.locator(".tile").nth(2).tap()
    visit.status("by image")
    page.fill("#edit", "red -> blue, -green")
    visit.status("by delta")
    expect(page.locator(".why").first).to_be_visible()  # there is no hover
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    boxes = [tile.bounding_box() for tile in page.locator(".tile").all()[:2]]
    assert boxes[0]["y"] == boxes[1]["y"]  # two columns
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        red, *_ = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")
        assert (int(red) > 127) == (scheme == "light")
    visit.close()
