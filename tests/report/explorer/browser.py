"""Helpers of browser tests: runs with hostile texts, and a tab that records errors and requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import Example, ImageRef
from contrapose.data.examples import diagonal_match, single_match
from contrapose.results import RunRecord
from tests.fakes import patch
from tests.report.html.checks import results
from tests.report.html.test_failure_cards import make_run

HOSTILE = "</script><script>document.title='taken'</script><!--<img src=x onerror=\"alert('&')\">"
SIZE = 60


def make_runs() -> list[RunRecord]:
    """Two runs of `SIZE` choices and four pairs; one example has hostile texts, one is skipped."""
    rng = np.random.default_rng(0)
    cases = {
        f"swap/{i}": Example(
            str(i), (patch(i % 5),), (f"a red cube {i} left of it", f"a blue cube {i} left of it"),
            single_match(2, 0), {"kind": "odd" if i % 2 else "even"},
        )
        for i in range(SIZE)
    }  # fmt: skip
    cases |= {
        f"place/{i}": Example(
            str(i), (patch(6), patch(7)), ("a cat on a mat", "a mat on a cat"), diagonal_match(2)
        )
        for i in range(4)
    }
    hostile = ImageRef(HOSTILE, Path(f"{HOSTILE}.png"))
    cases[f"swap/{HOSTILE}"] = Example(
        HOSTILE, (hostile,), (HOSTILE, f"{HOSTILE}\u2028'\""), single_match(2, 0),
        {"kind": HOSTILE},
    )  # fmt: skip
    runs = []
    for score in ("itc", "lm"):
        scores = {
            name: rng.normal(size=case.shape).round(2).tolist() for name, case in cases.items()
        }
        scores["swap/3"] = [[0.5, 0.5]]
        scores["place/0"] = [[2.0, 1.0], [0.5, 3.0]]
        run = make_run(cases, scores, score)
        tags = {
            **run.measured.tags,
            "kind": tuple(case.tags.get("kind", "") for case in cases.values()),
        }
        measured = replace(run.measured, tags=tags)
        model = HOSTILE if score == "lm" else "tiny-clip"
        spec = {"skipped": {"swap/lost": f"the image is missing {HOSTILE}"}}
        runs.append(replace(run, measured=measured, results=results(model, score), spec=spec))
    return runs


class Tab:
    """A tab at a page, which records errors of its script and requests elsewhere."""

    def __init__(self, browser: Any, url: str, **options: Any):
        self.url, self.errors, self.foreign = url, list[str](), list[str]()
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._read_console)
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))
        self.page.on("request", lambda request: self._note(request.url))
        self.page.goto(url)
        self.page.wait_for_selector("article.example")

    def _read_console(self, line: Any) -> None:
        if line.type == "error":
            self.errors.append(line.text)

    def _note(self, url: str) -> None:
        if not url.startswith((self.url.rpartition("/")[0], "data:", "blob:")):
            self.foreign.append(url)

    def ids(self) -> list[str]:
        """Ids of the cards that are shown."""
        notes = self.page.locator("article.example > p.note:last-child").all_inner_texts()
        return [note.removeprefix("example ") for note in notes]

    def status(self) -> str:
        """The line above the cards."""
        return str(self.page.locator("#x-status").inner_text())

    def close(self) -> None:
        title = self.page.title()
        self.context.close()
        assert (self.errors, self.foreign) == ([], [])
        assert title != "taken"
