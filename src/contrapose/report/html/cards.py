"""Failures as cards: the pictures, the captions with their scores, right and preferred."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from contrapose.report.html.failures import Failure
from contrapose.report.html.markup import element, escaped

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 320
"""Pixels of a picture's longer side; larger ones are made smaller."""


def failure_cards(failures: Sequence[Failure]) -> str:
    """The cards of all failures, run by run."""
    parts = []
    for i, run in enumerate(dict.fromkeys(failure.run for failure in failures)):
        cards = [_card(failure) for failure in failures if failure.run == run]
        number = f"{len(cards)} failure{'' if len(cards) == 1 else 's'}"
        parts.append(
            element(
                "details",
                element("summary", f"{escaped(run)} ", element("small", number)),
                element("div", *cards, class_="cards"),
                open=i == 0,
            )
        )
    return "".join(parts)


def _card(failure: Failure) -> str:
    several = len(failure.images) > 1
    names = [chr(ord("A") + i) for i in range(len(failure.images))] if several else [""]
    pictures = [
        element(
            "div",
            element("img", src=picture_uri(image), alt=_alternative(failure, i), loading="lazy"),
            escaped(name),
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
            element("td", escaped(failure.texts[j]), class_="left"),
            *(_score(failure, i, j) for i in range(len(failure.images))),
        )
        for j in order
    ]
    title = element(
        "header",
        element("span", escaped(failure.part or failure.run)),
        element("small", f"wrong by {failure.margin:.3g}"),
    )
    table = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
    return element("article", title, element("div", *pictures, class_="pictures"), table)


def _score(failure: Failure, image: int, text: int) -> str:
    """A score, and whether the caption is right, preferred, or both."""
    value = failure.scores[image, text]
    right = bool(failure.match[image, text])
    preferred = int(np.nanargmax(failure.scores[image])) == text
    said = [element("span", "right", class_="right")] if right else []
    if preferred:
        said.append(element("span", "preferred", class_="right" if right else "wrong"))
    return element("td", f"{value:.3f}" if np.isfinite(value) else "–", *said)


def _alternative(failure: Failure, image: int) -> str:
    """What the picture shows: its right captions."""
    right = [text for text, fits in zip(failure.texts, failure.match[image], strict=True) if fits]
    return "; ".join(right) or "a picture that no caption fits"


def picture_uri(image: Image) -> str:
    """A picture as a data URI, so that the report is one file."""
    small = image.convert("RGB")
    small.thumbnail((LARGEST, LARGEST))
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=92, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()
