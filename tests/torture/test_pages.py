"""Hostile captions, ids, tags and file names in a real browser: shown as text, never run."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.build.minimal_pairs import MinimalPair, PairImage
from contrapose.build.review.page import write_review_page
from contrapose.build.review.pairs import read_pair_set
from contrapose.data import Example, ImageRef, in_memory_benchmark
from contrapose.data.examples import single_match
from contrapose.report.html import build_report
from contrapose.search.searcher import Searcher
from contrapose.search.server import SearchServer
from contrapose.search.writer import IndexRequest, build_index
from tests.build.review.pair_folder import patch as colored
from tests.build.review.pair_folder import write_set
from tests.fakes import patch
from tests.report.html.checks import results
from tests.report.html.test_failure_cards import make_run
from tests.search.photos import COLORS, ColorModel, write_photos
from tests.torture.conftest import Tally
from tests.torture.mutations import ROUNDS, SEED, WHOLE
from tests.tune.small import small_student, write_pairs

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not WHOLE, reason="a part of make torture; each page has its test"),
]
RUN = "window.taken=1;document.title='taken'"
PAYLOADS = (
    f"<script>{RUN}</script>", f"</script><script>{RUN}</script>", f"<img src=x onerror={RUN}>",
    f'"><svg onload="{RUN}">', f"'><iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<!--<script>{RUN}//-->", f"]]><script>{RUN}</script>", f"javascript:{RUN}",
    f"<a href=\"javascript:{RUN}\" autofocus onfocus=\"{RUN}\">x</a>",
    f"</title><script>{RUN}</script>",
    f"</style><script>{RUN}</script>", f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"${{{RUN}}}", f"&lt;script&gt;{RUN}&lt;/script&gt;", f"\u2028{RUN}\u2029", "\u202eevil\u202c",
    f"</textarea></noscript><script>{RUN}</script>", "<base href=//example.org/>",
    "<meta http-equiv=refresh content='0;url=//example.org'>",
    "<link rel=stylesheet href=//example.org>",
    "<form action=//example.org><button>", f"<math><mtext></mtext><script>{RUN}</script>",
    "\\u003cscript\\u003e", "__proto__", "constructor", "a" * 10_000, "%00%3Cscript%3E",
    "NaN", "Infinity", "null", "-0", "\u2067right\u2066left\u2069\u200f", "a\u0301" * 3000,
    "\x07\x1b[2J\x9b",
)  # fmt: skip


def make_texts(count: int) -> list[str]:
    """Payloads, and joined pieces of them."""
    rng = random.Random(f"{SEED}pages")  # noqa: S311
    texts = list(PAYLOADS)
    while len(texts) < count:
        one, other = rng.sample(PAYLOADS[:24], 2)
        texts.append(one[: rng.randrange(len(one) + 1)] + other[rng.randrange(len(other)) :])
    return texts


CLICK_MORE = """() => {
    const more = document.querySelector("#x-more");
    if (!more.hidden) more.click();
    return !more.hidden;
}"""
"""Show more examples, if there are any."""


class Visit:
    """A tab that records what a page must not do."""

    def __init__(self, browser: Any, url: str, home: str):
        self.faults: list[str] = []
        self.context = browser.new_context(viewport={"width": 1000, "height": 800})
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.faults.append(f"error {error}"))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.note(request.url, home))
        self.page.goto(url)

    def note(self, url: str, home: str) -> None:
        if not url.startswith((home, "data:", "blob:", "about:")):
            self.faults.append(f"request {url}")

    def text(self) -> str:
        return str(self.page.evaluate("document.body.textContent"))

    def close(self) -> None:
        taken = self.page.evaluate("[window.taken, document.title]")
        self.context.close()
        assert self.faults == []
        assert taken[0] is None
        assert taken[1] != "taken"


def test_explorer(browser: Any, tmp_path: Path, tally: Tally) -> None:
    texts = make_texts(2 * ROUNDS)
    cases = {
        f"{text[:80]}/{i}": Example(
            f"{i}", (patch(i % 5),), (text, f"{text} "), single_match(2, 0), {"kind": text}
        )
        for i, text in enumerate(texts)
    }
    rng = np.random.default_rng(0)
    run = make_run(cases, {name: rng.normal(size=(1, 2)).tolist() for name in cases}, "itc")
    measured = replace(run.measured, tags={**run.measured.tags, "kind": tuple(texts)})
    spec = {"skipped": {f"x/{text[:60]}": text for text in texts}}
    run = replace(run, measured=measured, results=results(texts[1], "itc"), spec=spec)
    path = tmp_path / "report.html"
    path.write_text(build_report([run], folder=texts[2]).page, encoding="utf-8")
    visit = Visit(browser, path.as_uri(), tmp_path.as_uri())
    visit.page.wait_for_selector("article.example")
    while visit.page.evaluate(CLICK_MORE):
        pass
    shown = visit.text()
    assert sum(text in shown for text in texts) > len(texts) / 2
    visit.page.fill("#x-text", PAYLOADS[0])
    visit.page.wait_for_timeout(300)
    visit.close()
    tally.add("hostile texts in pages", len(texts))


def test_review(browser: Any, tmp_path: Path, tally: Tally) -> None:
    texts = make_texts(ROUNDS)
    pairs = [
        MinimalPair(
            f"{i} {text[:60]}",
            (PairImage(f"v/{i}_0", colored("red")), PairImage(f"v/{i}_1", colored("blue"))),
            (f"{text} {i}", f"honest {i}"),
            {"kind": text, "note": text},
        )
        for i, text in enumerate(texts)
    ]
    write_set(tmp_path / "set", pairs)
    write_review_page(read_pair_set(tmp_path / "set"), tmp_path / "review.html")
    visit = Visit(browser, (tmp_path / "review.html").as_uri(), tmp_path.as_uri())
    visit.page.wait_for_timeout(300)
    assert "honest 0" in visit.text()
    for key in ("k", "d", "j", "ArrowRight"):
        visit.page.keyboard.press(key)
    visit.close()
    tally.add("hostile texts in pages", len(texts))


def test_search(browser: Any, tmp_path: Path, tally: Tally) -> None:
    texts = make_texts(ROUNDS)
    photos = write_photos(tmp_path / "photos", 5)
    names = [text.replace("/", "\u2215")[:60] for text in texts]
    for i, name in enumerate(names):
        Image.new("RGB", (8, 8), (i, 20, 30)).save(photos / f"{i} {name}.png")
    model = ColorModel()
    index = build_index(IndexRequest(photos), model).index
    with SearchServer(Searcher(index, model, subjects=list(COLORS))) as server:
        visit = Visit(browser, server.url, server.url)
        visit.page.wait_for_selector(".tile")
        visit.page.locator(".tile").first.click()
        for text in texts[:6]:
            visit.page.fill("#edit", text[:200])
            visit.page.wait_for_timeout(100)
        visit.close()
    tally.add("hostile texts in pages", len(texts))


def hostile_examples(folder: Path, texts: list[str]) -> list[Example]:
    """Examples with hostile captions, tags and image names, as a user's own file has them."""
    folder.mkdir()
    examples = []
    for i, text in enumerate(texts):
        name = f"{i} {text.replace('/', chr(0x2215))[:60]}.png"
        Image.new("RGB", (16, 16), (i, 60, 200)).save(folder / name)
        ref = ImageRef(f"{i}/{text[:40]}", folder / name)
        tags = {"kind": text[:200], text[:60] or "x": "tag"}
        captions = (f"{text[:300]} a cat", f"{text[:300]} a dog")
        examples.append(Example(f"{i} {text[:60]}", (ref,), captions, single_match(2, 0), tags))
    return examples


@dataclass
class HostileModel(ColorModel):
    """Dual encoder by color whose name is a script."""

    def embed_texts(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        return self._scale([[len(text) % 7, len(text) % 3, 1, 1] for text in texts])


class DeletingModel(HostileModel):
    """The same, of which words can be hidden by leaving them out."""

    baselines = ("delete",)


def write_pages(folder: Path, texts: list[str]) -> list[Path]:
    """Pages of all verbs, as the functions of Python write them."""
    examples = hostile_examples(folder / "images", texts)
    runs = []
    for i, name in enumerate(texts[:2]):
        model = HostileModel(f"{name[:80]} {i}", f"hostile-{i}")
        benchmark = in_memory_benchmark(examples, name=f"plain {PAYLOADS[2][:30]}")
        run = cp.evaluate(model, on=benchmark, cache=False, resamples=100)
        run.save(folder / f"run-{i}")
        runs.append(folder / f"run-{i}")
    cp.compare(runs[0], runs[1], out=folder / "compare")
    cp.rank(runs, out=folder / "rank")
    cp.audit(examples, lm="none", out=folder / "audit", cache=False, resamples=100)
    model = HostileModel(texts[1][:80], "hostile-3")
    cp.index(folder / "images", model=model, out=folder / "index")
    searcher = cp.load_index(folder / "index", model=model)
    cp.search(searcher, text=texts[0], out=folder / "sheet.html")
    return sorted(path for path in folder.rglob("*.html"))


def test_every_page(browser: Any, tmp_path: Path, tally: Tally) -> None:
    """Reports, comparisons, rankings, audits and contact sheets of hostile data run no script."""
    pages = write_pages(tmp_path, make_texts(40))
    assert len(pages) >= 6
    for page in pages:
        visit = Visit(browser, page.as_uri(), tmp_path.as_uri())
        visit.page.wait_for_timeout(300)
        assert visit.text().strip()
        visit.close()
    tally.add("pages of all verbs with hostile data", len(pages))


def test_explanations(browser: Any, tmp_path: Path, tally: Tally) -> None:
    """Pages of one pair with hostile captions and names of word groups, by the built-in model."""
    short = "taken=1"
    model = cp.load_model("tiny-clip", device="cpu")
    texts = ["<b>a</b> cat", f"<script>{short}</script> a", f"a <img src=x onerror={short}>",
             f'"><svg onload={short}>', f"</title><script>{short}</script>", "NaN",
             "\u202ea cat"]  # fmt: skip
    for i, text in enumerate(texts):
        image = tmp_path / f"{i} {text.replace('/', chr(0x2215))[:60]}.png"
        Image.new("RGB", (32, 32), "red").save(image)
        page = tmp_path / f"{i}.html"
        other = texts[(i + 1) % len(texts)]
        cp.explain(model, image, text, against=other, superpixels=2, out=page, cache=False)
        visit = Visit(browser, page.as_uri(), tmp_path.as_uri())
        visit.page.wait_for_load_state("networkidle")
        assert " ".join(text.split()[:2])[:200] in " ".join(visit.text().split())
        visit.close()
    tally.add("pages of all verbs with hostile data", len(texts))


def test_diagnosis(browser: Any, tmp_path: Path, tally: Tally) -> None:
    """Pages of a diagnosis with hostile captions, ids, tags, benchmark and model names."""
    texts = [*(text[:60] for text in make_texts(40)), "x" * 10_000]
    examples = [
        replace(example, texts=tuple(f"the cat is {text} the {word}" for word in ("mat", "dog")),
                tags={**example.tags, "relation": text})
        for example, text in zip(hostile_examples(tmp_path / "images", texts), texts, strict=True)
    ]  # fmt: skip
    model = DeletingModel(PAYLOADS[0], "hostile")
    benchmark = in_memory_benchmark(examples, name=f"plain {PAYLOADS[2][:30]}")
    cp.diagnose(model, on=benchmark, side="text", baseline="delete", cache=False, resamples=100,
                out=tmp_path / "diagnosis")  # fmt: skip
    visit_all(browser, tmp_path / "diagnosis", PAYLOADS[0], tally)


def test_tuning(browser: Any, tmp_path: Path, tally: Tally) -> None:
    """The page of before and after: hostile names of model and data, captions and kinds."""
    source = tmp_path / f"from <img src=x onerror={RUN}>"
    source.mkdir()
    small_student().save(source, {})
    file = write_pairs(source, 12)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row, text in zip(rows, make_texts(40), strict=False):
        row["caption"] = f"{row['caption']} {text[:80]}"
        for side, kinds in row["kinds"].items():
            row["kinds"][side] = [text[:80] for _ in kinds]
            row[side] = [f"{caption} {text[:80]}" for caption in row[side]]
    hostile = source / f"<script>{RUN}<∕script>.jsonl"
    hostile.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cp.tune(str(source), data=hostile, losses="hp+hn", steps=2, batch_size=4, held_out=0.5,
            device="cpu", out=tmp_path / "tuned")  # fmt: skip
    visit_all(browser, tmp_path / "tuned", f"onerror={RUN}", tally)


def test_views(browser: Any, tmp_path: Path, tally: Tally) -> None:
    """The server of several runs with hostile data, also after its folders were swapped."""
    texts = make_texts(40)
    examples = hostile_examples(tmp_path / "images", texts)
    folders = [tmp_path / f"run {i} <img src=x onerror={RUN}>" for i in range(2)]
    for i, folder in enumerate(folders):
        model = HostileModel(f"{texts[i][:80]} {i}", f"hostile-{i}")
        run = cp.evaluate(model, on=examples, cache=False, resamples=100)
        run.save(folder)
    with cp.view(*folders) as server:
        visit = Visit(browser, server.url, server.url)
        visit.page.wait_for_selector("article.example")
        while visit.page.evaluate(CLICK_MORE):
            visit.page.wait_for_load_state("networkidle")
        shown = visit.text()
        assert sum(f"{text[:300]} a cat" in shown for text in texts) > len(texts) / 2
        folders[0].rename(tmp_path / "away")
        folders[1].rename(folders[0])
        shutil.rmtree(tmp_path / "images")
        for text in texts[:6]:
            visit.page.fill("#x-text", text[:200])
            visit.page.wait_for_load_state("networkidle")
        visit.page.reload()
        visit.page.wait_for_selector("article.example")
        visit.close()
    tally.add("pages of all verbs with hostile data", 2)


def visit_all(browser: Any, folder: Path, shown: str, tally: Tally) -> None:
    """Visit all pages of a folder; one of them shows a text as text."""
    pages = sorted(folder.rglob("*.html"))
    texts = []
    for page in pages:
        visit = Visit(browser, page.as_uri(), folder.as_uri())
        visit.page.wait_for_load_state("networkidle")
        for fold in visit.page.locator("summary").all():
            if fold.locator("..").get_attribute("open") is None:  # another may lie in it
                fold.click()
        texts.append(visit.text())
        visit.close()
    assert any(shown in text for text in texts), [text[:2000] for text in texts]
    tally.add("pages of all verbs with hostile data", len(pages))
