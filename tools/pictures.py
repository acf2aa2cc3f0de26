"""Pictures of the documentation: failure card, explorer, diagnosis, explanation, search, terminal.

    python -m tools.pictures                    all of them, into docs/
    python -m tools.pictures explorer-page      one

Everything that is shown is computed by built-in models on built-in scenes. Pages are opened in a
headless Chromium through Playwright; both must be installed. Pictures have a palette of few colors,
so that a file stays below 150 KB.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import contrapose as cp

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LARGEST = 150_000
"""Bytes of a picture."""
MODELS = ("tiny", "tiny-clip")
PHONE = 390
"""Width of a phone in CSS pixels."""
CARD = 440
"""Width of a failure card in CSS pixels."""
CARD_STYLE = f"html {{ color-scheme: light; }} body {{ width: {CARD}px; padding: 6px; margin: 0; }}"
COMMAND = (
    "eval", "tiny", "tiny-clip", "--on", "scenes",
    "--subset", "replace-color,swap-attribute,swap-relation,order",
    "--limit", "60",
)  # fmt: skip
"""Command whose table is the picture of the terminal."""
COLUMNS = 134


def main(arguments: list[str] | None = None) -> int:
    """Make pictures; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(PICTURES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(PICTURES)}")
    if next(filter(None, map(shutil.which, BROWSERS)), None) is None:
        print(f"none of {', '.join(BROWSERS)} is installed.", file=sys.stderr)
        return 1
    large = []
    for name in options.names or PICTURES:
        file = PICTURES[name](options.out / name)
        size = file.stat().st_size
        print(f"{file}: {size / 1000:.0f} KB")
        large += [str(file)] if size > LARGEST else []
    if large:
        print(f"larger than {LARGEST / 1000:.0f} KB: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


def draw_failure_card(target: Path) -> Path:
    """Worst failure of a dual encoder on left and right, as the report shows it."""
    from contrapose.report.html.failure_cards import render_failure, worst_failures
    from contrapose.report.html.page import element, style_sheet

    runs = cp.evaluate("tiny-clip", "scenes", score="itc", subset="location", limit=60)
    failure = worst_failures([run.record for run in runs], per_part=1)[0]
    style = element("style", style_sheet() + CARD_STYLE)
    page = f"<!DOCTYPE html><meta charset=utf-8>{style}<body>{render_failure(failure)}</body>"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "card.html"
        source.write_text(page, encoding="utf-8")
        with open_tab(CARD + 12, 1200, scale=2) as tab:
            tab.goto(source.as_uri())
            return save(tab, target, trim=True)


def draw_explorer(target: Path) -> Path:
    """Two runs side by side in the explorer: light, dark, or as wide as a phone, by the name."""
    phone, dark = "phone" in target.name, "dark" in target.name
    runs = cp.evaluate(list(MODELS), on="scenes/location", score="itc", limit=60)
    query = urlencode({"b": 1, "outcome": "right-wrong", "sort": "loss"})
    width, height = (PHONE, 844) if phone else (1100, 760)
    with cp.view(runs) as server, open_tab(width, height, dark=dark, phone=phone) as tab:
        tab.goto(f"{server.url}#x?{query}")
        first = tab.locator("article.example").first
        first.wait_for()
        shown = first if phone else tab.locator("#examples")
        shown.evaluate("section => section.scrollIntoView()")
        tab.wait_for_load_state("networkidle")
        return save(tab, target)


def draw_diagnosis(target: Path) -> Path:
    """First screen of a diagnosis of two models: their verdict cards."""
    with tempfile.TemporaryDirectory() as folder, open_tab(1000, 1000) as tab:
        out = Path(folder) / "diagnosis"
        cp.diagnose(list(MODELS), on="scenes", side="all", limit=60, out=out)
        tab.goto((out / "report.html").as_uri())
        return save(tab, target)


def draw_explanation(target: Path) -> Path:
    """Explanation of one pair down to its first heat map."""
    with tempfile.TemporaryDirectory() as name, open_tab(1000, 1000) as tab:
        folder = Path(name)
        cp.build_scenes(out=folder / "scenes", part="swap-relation", examples=1, size=320)
        image, right, wrong = _read_scene(folder / "scenes")
        page = folder / "pair.html"
        cp.explain("tiny", image, right, against=wrong, out=page)
        tab.goto(page.as_uri())
        box = tab.locator(".heats figure").first.bounding_box()
        tab.set_viewport_size({"width": 1000, "height": int(box["y"] + box["height"])})
        return save(tab, target)


def _read_scene(folder: Path) -> tuple[Path, str, str]:
    """Image, right caption and wrong caption of an exported scene."""
    (file,) = folder.rglob("swap*.json")
    records = json.loads(file.read_text(encoding="utf-8"))
    record = next(iter(records.values())) if isinstance(records, dict) else records[0]
    (image,) = folder.rglob(Path(record["filename"]).name)
    return image, record["caption"], record["negative_caption"]


def draw_search_page(target: Path) -> Path:
    """Search page with an image of a red cube and the change red -> blue."""
    with tempfile.TemporaryDirectory() as folder, open_tab(1100, 640) as tab:
        photos = Path(folder) / "photos"
        cp.build_scenes(out=photos, part=["replace-color", "swap-relation"], examples=150)
        cp.index(photos, model="tiny-clip")
        searcher = cp.load_index(photos)
        image = cp.search(searcher, text="a red cube", k=2).hits[-1].path
        query = urlencode({"image": image, "edit": "red -> blue"})
        with cp.serve(searcher) as server:
            tab.goto(f"{server.url}#{query}")
            tab.locator(".tile .score").first.wait_for()
            tab.locator(".tile").nth(2).hover()
            tab.wait_for_load_state("networkidle")
            return save(tab, target)


def draw_terminal(target: Path) -> Path:
    """Table of an evaluation in a terminal, as SVG with its colors."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    words = [sys.executable, "-m", "contrapose", *COMMAND, "--quiet"]
    done = subprocess.run(  # noqa: S603
        words, env=environment, check=True, capture_output=True, text=True
    )
    return write_terminal(f"$ contrapose {' '.join(COMMAND)}\n{done.stdout}", target)


def write_terminal(printed: str, target: Path) -> Path:
    """Write what a terminal shows, with its colors, as an SVG that requests nothing."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    with Path(os.devnull).open("w", encoding="utf-8") as nothing:
        console = Console(record=True, width=COLUMNS, file=nothing)
        console.print(Text.from_ansi(printed.rstrip()), soft_wrap=False)
        drawn = console.export_svg(
            title="contrapose", theme=MONOKAI, code_format=form, unique_id=target.name
        )
    file = target.with_suffix(".svg")
    file.write_text(drawn, encoding="utf-8")
    return file


@contextmanager
def open_tab(
    width: int, height: int, *, dark: bool = False, phone: bool = False, scale: int = 1
) -> Iterator[Any]:
    """Tab of a headless browser."""
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield running.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            device_scale_factor=scale,
            is_mobile=phone,
            has_touch=phone,
        )
        running.close()


def save(tab: Any, target: Path, *, trim: bool = False) -> Path:
    """Write a picture of a tab as PNG with few colors; trimmed, without its white border."""
    from PIL import Image, ImageChops

    file = target.with_suffix(".png")
    file.parent.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=file)
    with Image.open(file) as opened:
        image = opened.convert("RGB")
    if trim:
        white = Image.new("RGB", image.size, "white")
        image = image.crop(ImageChops.difference(image, white).getbbox())
    reduce_colors(image, file)
    return file


def reduce_colors(image: Any, file: Path, counts: Sequence[int] = (256, 128, 64, 32)) -> None:
    """Write an image with the largest palette that keeps the file small."""
    for colors in counts:
        image.quantize(colors, kmeans=3, dither=0).save(file, optimize=True)
        if file.stat().st_size <= LARGEST:
            break


PICTURES: dict[str, Callable[[Path], Path]] = {
    "failure-card": draw_failure_card,
    "explorer-page": draw_explorer,
    "explorer-dark": draw_explorer,
    "explorer-phone": draw_explorer,
    "verdict-cards": draw_diagnosis,
    "heat-map": draw_explanation,
    "search-page": draw_search_page,
    "terminal-table": draw_terminal,
}
"""Names of the files in docs/, without the ending, and what draws them."""


if __name__ == "__main__":
    raise SystemExit(main())
