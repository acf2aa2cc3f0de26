"""Screenshots of the search page, for its documentation.

    python -m tools.search_page --out docs/search-page.png

Renders scenes of the built-in world, indexes them with a built-in model, serves the page, and opens
it in a headless Chromium through Playwright; both must be installed. `--width 390 --height 844`
gives that of a phone.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import contrapose as cp

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main(arguments: list[str] | None = None) -> int:
    """Write the picture; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny-clip")
    parser.add_argument("--text", default="a red cube", help="finds the query image")
    parser.add_argument("--edit", default="red -> blue")
    parser.add_argument("--rank", type=int, default=2, help="hit of the text that is the query")
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=640)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--out", type=Path, default=Path("docs/search-page.png"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder) / "photos"
        parts = ["replace-color", "swap-relation"]
        cp.build_scenes(out=photos, part=parts, examples=150)
        cp.index(photos, model=options.model)
        searcher = cp.load_index(photos)
        hits = cp.search(searcher, text=options.text, k=options.rank).hits
        query = urlencode({"image": hits[-1].path, "edit": options.edit})
        with cp.serve(searcher) as server:
            return _take_screenshot(f"{server.url}#{query}", options)


def _take_screenshot(url: str, options: argparse.Namespace) -> int:
    """Open the page, point at the third hit, and write the picture."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"none of {', '.join(BROWSERS)} is installed.")
        return 1
    phone = options.width < 640
    with sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = running.new_page(
            viewport={"width": options.width, "height": options.height},
            color_scheme=options.scheme,
            is_mobile=phone,
            has_touch=phone,
        )
        page.goto(url)
        page.locator(".tile .score").first.wait_for()
        page.locator(".tile").nth(2).hover()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=options.out)
        running.close()
    with Image.open(options.out) as image:
        image.convert("RGB").quantize(256, kmeans=3).save(options.out, optimize=True)
    print(f"{options.out}: {options.out.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
