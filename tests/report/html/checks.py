"""Helpers of the report tests: a check that markup is balanced, and made-up results."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np

from contrapose.report.html.page import VOID_TAGS
from contrapose.results import AlphaReport, AlphaValue, MetricValue, Results


class Balanced(HTMLParser):
    """Fails on tags that are left open or closed in the wrong order; keeps text and attributes."""

    def __init__(self, markup: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def require_self_contained(self) -> None:
        """Require that no element loads anything, and that scripts stand in the page."""
        assert not {"link", "iframe", "object", "embed"} & {tag for tag, _ in self.tags}
        for _, attributes in self.tags:
            assert not any(name.startswith("on") for name in attributes)
            for name in ("src", "href", "srcset", "action", "poster"):
                value = attributes.get(name)
                assert value is None or value.startswith("data:image/")
        assert not any("url(" in text or "@import" in text for text in self.text)


def explorer_data(markup: str) -> Any:
    """JSON values that the explorer of a page reads."""
    (text,) = re.findall(r'<script id="explorer-data"[^>]*>(.*?)</script>', markup, re.DOTALL)
    return json.loads(text)


def finite(markup: str) -> bool:
    """Whether no number of a drawing is NaN or infinite."""
    drawings = re.findall(r"<svg.*?</svg>", markup, flags=re.DOTALL)
    attributes = [value for drawing in drawings for value in re.findall(r'="([^"]*)"', drawing)]
    return bool(drawings) and not any(re.search(r"\b(nan|inf)\b", value) for value in attributes)


def metric(value: float, chance: float | None = 0.5, ties: float | None = 0.0) -> MetricValue:
    low, high = max(value - 0.05, 0.0), min(value + 0.05, 1.0)
    return MetricValue(value=value, ci95=(low, high), n=200, chance=chance, ties=ties)


def alpha(size: int = 11) -> AlphaReport:
    grid = np.linspace(0, 1, size)
    return AlphaReport(
        chosen_by="accuracy",
        applied="cross-validated",
        alphas=(0.4, 0.6),
        oracle_alpha=0.55,
        oracle_segment=(0.5, 0.6),
        metrics={
            "accuracy": AlphaValue(raw=0.6, pmi=0.7, cross_validated=0.75, std=0.02, oracle=0.8)
        },
        curve=tuple((float(at), 0.6 + 0.2 * float(np.sin(3 * at))) for at in grid),
    )


def results(model: str, score: str, *, part: str = "swap", **more: Any) -> Results:
    return Results(
        contrapose="0",
        benchmark="made-up",
        model=model,
        score=score,
        protocol="strict",
        aggregation="mean",
        examples=200,
        clusters=None,
        resamples=1000,
        seed=0,
        metrics={"average": metric(0.7)},
        subsets={
            part: {"accuracy": metric(0.6)},
            "place": {"text": metric(0.5, 0.25), "group": metric(0.4, 1 / 6)},
            "place/left": {"group": metric(0.3, 1 / 6)},
        },
        **more,
    )
