"""Screenshots of a diagnosis and of an explanation, for their documentation.

    python -m tools.diagnosis_pages --out docs

Diagnoses the built-in models on scenes, explains one scene, and opens both pages in a headless
Chromium through Playwright; both must be installed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import contrapose as cp

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COLORS = 128
"""Colors of the pictures, so that their files are small."""


def main(arguments: list[str] | None = None) -> int:
    """Write verdict-cards.png and heat-map.png; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--example", type=int, default=0, help="scene that is explained")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args(arguments)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"none of {', '.join(BROWSERS)} is installed.")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cp.diagnose(
            ["tiny", "tiny-clip"], on="scenes", side="all", limit=options.limit, out=folder / "d"
        )
        cp.build_scenes(
            out=folder / "s", part="swap-relation", examples=options.example + 1, size=320
        )
        record = _read_scene(folder / "s", options.example)
        cp.explain("tiny", *record[:2], against=record[2], out=folder / "pair.html")
        pages = {"verdict-cards": folder / "d" / "report.html", "heat-map": folder / "pair.html"}
        for picture, page in pages.items():
            _take_screenshot(browser, page, options.out / f"{picture}.png")
    return 0


def _read_scene(folder: Path, number: int) -> tuple[Path, str, str]:
    """Image, right caption and wrong caption of an exported scene."""
    (file,) = folder.rglob("swap*.json")
    records = json.loads(file.read_text(encoding="utf-8"))
    record = list(records.values())[number] if isinstance(records, dict) else records[number]
    (image,) = folder.rglob(Path(record["filename"]).name)
    return image, record["caption"], record["negative_caption"]


def _take_screenshot(browser: str, page: Path, target: Path) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = running.new_page(viewport={"width": 1000, "height": 1000})
        tab.goto(page.resolve().as_uri())
        box = tab.locator(".heats figure").first.bounding_box() if "heat" in target.name else None
        if box is not None:  # down to the first heat map
            tab.set_viewport_size({"width": 1000, "height": int(box["y"] + box["height"])})
        tab.screenshot(path=target)
        running.close()
    Image.open(target).convert("RGB").quantize(COLORS).save(target, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main())
