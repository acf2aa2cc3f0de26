"""Worst failures of a run, and their HTML cards with images, captions and scores."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import Example, open_images
from contrapose.evaluation.parts import DEBIASED
from contrapose.metrics import BoolArray, FloatArray
from contrapose.report.html.page import element, escape
from contrapose.report.results import run_label
from contrapose.results import Run

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """Example with the part of the benchmark it belongs to."""

    part: str
    example: Example


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """Example that a model got wrong.

    Attributes:
        run: the model and score.
        part: of the benchmark.
        example: its id.
        images: m pictures.
        texts: n captions.
        scores: m × n.
        match: m × n, true where picture and caption belong together.
        margin: how far a wrong caption is ahead of a right one.
    """

    run: str
    part: str
    example: str
    images: tuple[Image, ...]
    texts: tuple[str, ...]
    scores: FloatArray
    match: BoolArray
    margin: float


def worst_failures(
    runs: Sequence[Run], cases: Mapping[str, BenchmarkCase], *, each: int = 2
) -> list[Failure]:
    """Examples with the largest wrong margin, a few for each run and part.

    The margin is the highest score of a wrong caption of a picture less the lowest of a right one;
    of several pictures the worst counts. Examples without a choice among captions have none. Runs
    with the prior taken out are passed over: their tables hold the scores before that.

    Args:
        runs: with their score tables.
        cases: by the example's id in those tables.
        each: how many of a run and part.
    """
    found = [
        (run, name, margin)
        for run in runs
        if run.scores is not None and run.results.score not in DEBIASED
        for name, margin in _worst_margins(run, cases, each)
    ]
    refs = list(dict.fromkeys(ref for _, name, _ in found for ref in cases[name].example.images))
    pictures = dict(zip(refs, open_images(refs), strict=True))
    failures = []
    for run, name, margin in found:
        example = cases[name].example
        failures.append(
            Failure(
                run=run_label(run.results),
                part=cases[name].part,
                example=example.id,
                images=tuple(pictures[ref] for ref in example.images),
                texts=example.texts,
                scores=_score_matrix(run, name, example),
                match=np.array(example.match, dtype=np.bool_),
                margin=margin,
            )
        )
    return failures


def _worst_margins(
    run: Run, cases: Mapping[str, BenchmarkCase], each: int
) -> list[tuple[str, float]]:
    """Ids and margins per part, the worst first; ties in the order of the table."""
    by_part: dict[str, list[tuple[str, float]]] = {}
    for name, margin in _margins(run).items():
        if name in cases and margin >= 0:  # a tie is never a win
            by_part.setdefault(cases[name].part, []).append((name, margin))
    return [
        one
        for failed in by_part.values()
        for one in sorted(failed, key=lambda item: -item[1])[:each]
    ]


def _margins(run: Run) -> dict[str, float]:
    """Margin of each example: the best wrong caption of an image over its worst right one."""
    table = run.scores or {}
    places: dict[str, int] = {}
    codes = np.array([places.setdefault(name, len(places)) for name in table["example"]])
    keys, pictures = np.unique(
        np.stack([codes, np.asarray(table["image"], dtype=np.int64)]), axis=1, return_inverse=True
    )
    value = np.asarray(table["value"], dtype=np.float64)
    right = np.array([match is not None and bool(match) for match in table["match"]])
    wrong = np.array([match is not None and not match for match in table["match"]])
    best_wrong = np.full(keys.shape[1], -np.inf)
    least_right = np.full(keys.shape[1], np.inf)
    pictures = pictures.reshape(-1)
    np.maximum.at(best_wrong, pictures[wrong], value[wrong])
    np.minimum.at(least_right, pictures[right], value[right])
    margins = np.full(len(places), -np.inf)
    np.maximum.at(margins, keys[0], best_wrong - least_right)
    return dict(zip(places, margins.tolist(), strict=True))


def _score_matrix(run: Run, name: str, example: Example) -> FloatArray:
    table = run.scores or {}
    rows = np.flatnonzero(np.asarray(table["example"]) == name)
    scores = np.full(example.shape, np.nan)
    images, texts = (np.asarray(table[each][rows], dtype=np.int64) for each in ("image", "text"))
    scores[images, texts] = table["value"][rows]
    return scores


MAX_IMAGE_SIDE = 320
"""Pixels of a picture's longer side; larger ones are made smaller."""


def render_failures(failures: Sequence[Failure]) -> str:
    """Render the cards of all failures, run by run."""
    parts = []
    for i, run in enumerate(dict.fromkeys(failure.run for failure in failures)):
        cards = [_failure_card(failure) for failure in failures if failure.run == run]
        number = f"{len(cards)} failure{'' if len(cards) == 1 else 's'}"
        parts.append(
            element(
                "details",
                element("summary", f"{escape(run)} ", element("small", number)),
                element("div", *cards, class_="cards"),
                open=i == 0,
            )
        )
    return "".join(parts)


def _failure_card(failure: Failure) -> str:
    several = len(failure.images) > 1
    names = [chr(ord("A") + i) for i in range(len(failure.images))] if several else [""]
    pictures = [
        element(
            "div",
            element("img", src=image_data_uri(image), alt=_image_alt(failure, i), loading="lazy"),
            escape(name),
        )
        for i, (image, name) in enumerate(zip(failure.images, names, strict=True))
    ]
    head = [element("th", "caption", class_="left", scope="col")]
    head += [element("th", f"score {name}".strip(), scope="col") for name in names]
    order = range(len(failure.texts))
    if not several:
        order = np.argsort(-failure.scores[0], kind="stable").tolist()
    rows = [
        element(
            "tr",
            element("td", escape(failure.texts[j]), class_="left"),
            *(_score_cell(failure, i, j) for i in range(len(failure.images))),
        )
        for j in order
    ]
    title = element(
        "header",
        element("span", escape(failure.part or failure.run)),
        element("small", f"wrong by {failure.margin:.3g}"),
    )
    table = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
    return element("article", title, element("div", *pictures, class_="pictures"), table)


def _score_cell(failure: Failure, image: int, text: int) -> str:
    """Table cell of a score, marked if the caption is right or preferred."""
    value = failure.scores[image, text]
    right = bool(failure.match[image, text])
    preferred = int(np.nanargmax(failure.scores[image])) == text
    said = [element("span", "right", class_="right")] if right else []
    if preferred:
        said.append(element("span", "preferred", class_="right" if right else "wrong"))
    return element("td", f"{value:.3f}" if np.isfinite(value) else "–", *said)


def _image_alt(failure: Failure, image: int) -> str:
    """Alternative text of an image: its right captions."""
    right = [text for text, fits in zip(failure.texts, failure.match[image], strict=True) if fits]
    return "; ".join(right) or "a picture that no caption fits"


def image_data_uri(image: Image) -> str:
    """JPEG data URI of an image, so that the report is one file."""
    small = image.convert("RGB")
    small.thumbnail((MAX_IMAGE_SIDE, MAX_IMAGE_SIDE))
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=92, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()
