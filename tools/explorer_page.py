"""Screenshots of the explorer, for its documentation.

    python -m tools.explorer_page --out docs/explorer-page.png

Scores built-in models on built-in scenes, serves their examples as `contrapose view` does, and
opens the page in a headless Chromium through Playwright; both must be installed. `--width 390
--height 844` gives that of a phone, `--enlarge` the first example enlarged.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from urllib.parse import urlencode

import contrapose as cp

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main(arguments: list[str] | None = None) -> int:
    """Write the picture; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs=2, default=["tiny", "tiny-clip"])
    parser.add_argument("--on", default="scenes/location")
    parser.add_argument("--examples", type=int, default=60)
    parser.add_argument("--outcome", default="right-wrong", help="of A and B")
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=760)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--enlarge", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/explorer-page.png"))
    options = parser.parse_args(arguments)
    runs = cp.evaluate(options.models, on=options.on, score="itc", limit=options.examples)
    query = urlencode({"b": 1, "outcome": options.outcome, "sort": "loss"})
    with cp.view(runs) as server:
        return _take_screenshot(f"{server.url}#x?{query}", options)


def _take_screenshot(url: str, options: argparse.Namespace) -> int:
    """Open the page at its examples, and write the picture."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"none of {', '.join(BROWSERS)} is installed.")
        return 1
    with sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = running.new_page(
            viewport={"width": options.width, "height": options.height},
            color_scheme=options.scheme,
        )
        page.goto(url)
        page.locator("article.example").first.wait_for()
        page.locator("#examples").evaluate("section => section.scrollIntoView()")
        if options.enlarge:
            page.locator("article.example").first.click()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=options.out)
        running.close()
    with Image.open(options.out) as image:
        image.convert("RGB").quantize(256, kmeans=3).save(options.out, optimize=True)
    print(f"{options.out}: {options.out.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
