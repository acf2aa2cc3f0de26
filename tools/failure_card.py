"""Picture of one failure card of the HTML report, for the README.

    python tools/failure_card.py --out docs/failure-card.png

Evaluates a built-in model on the built-in scenes, renders the card of its worst failure on one part
with the code of the report, and takes a screenshot with a headless Chromium that must be installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import contrapose as cp
from contrapose.report.html.failure_cards import render_failure, worst_failures
from contrapose.report.html.page import element, style_sheet

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH = 440
"""CSS pixels of the card."""
SCALE = 2
"""Pixels of the picture per CSS pixel."""
STYLE = f"html {{ color-scheme: light; }} body {{ width: {WIDTH}px; padding: 6px; margin: 0; }}"


def main(arguments: list[str] | None = None) -> int:
    """Write the picture; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny-clip")
    parser.add_argument("--score", default="itc")
    parser.add_argument("--part", default="location", help="part of scenes")
    parser.add_argument("--limit", type=int, default=60, help="examples to choose from")
    parser.add_argument(
        "--rank", type=int, default=1, help="1 for the worst failure, 2 for the next"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/failure-card.png"))
    options = parser.parse_args(arguments)
    runs = cp.evaluate(
        options.model, "scenes", score=options.score, subset=options.part, limit=options.limit
    )
    failures = worst_failures([run.record for run in runs], per_part=options.rank)
    if len(failures) < options.rank:
        print(f"{options.model} has only {len(failures)} failures on {options.part}.")
        return 1
    style = element("style", style_sheet() + STYLE)
    card = render_failure(failures[options.rank - 1])
    page = f"<!DOCTYPE html><meta charset=utf-8>{style}<body>{card}</body>"
    return _take_screenshot(page, options.out)


def _take_screenshot(page: str, out: Path) -> int:
    """Render a page with the first browser that is installed, cut to its content."""
    from PIL import Image, ImageChops

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "card.html", Path(folder) / "card.png"
        source.write_text(page, encoding="utf-8")
        for browser in BROWSERS:
            command = [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-background-networking", f"--user-data-dir={folder}/profile",
                f"--force-device-scale-factor={SCALE}", f"--window-size={WIDTH + 12},1200",
                f"--screenshot={target}", source.as_uri(),
            ]  # fmt: skip
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
                break
            except FileNotFoundError:
                continue
        else:
            print(f"none of {', '.join(BROWSERS)} is installed.")
            return 1
        with Image.open(target) as opened:
            image = opened.convert("RGB")
        white = Image.new("RGB", image.size, "white")
        box = ImageChops.difference(image, white).getbbox()
        out.parent.mkdir(parents=True, exist_ok=True)
        image.crop(box).quantize(256, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
