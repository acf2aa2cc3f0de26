"""Cards of benchmarks with one right caption or with pairs keep their promises."""

from __future__ import annotations

import pytest

from contrapose.data import Macro, find_single_benchmark

NAMES = (
    "winoground",
    "sugarcrepe",
    "eqben",
    "eqben-mini",
    "valse",
    "aro-relation",
    "aro-attribution",
    "aro-coco-order",
    "aro-flickr-order",
    "crepe",
    "vl-checklist",
    "vsr",
    "vsr-v2",
    "vsr-v2-zeroshot",
    "vsr-zeroshot",
    "tifa160",
    "dsg-tifa160",
    "seetrue",
    "genai-bench",
    "predicate-noun",
    "naturalbench",
    "naturalbench-retrieval",
    "bivlc",
    "colorswap",
    "vismin",
    "visla",
    "svo-probes",
    "imagecode",
    "mmvp-vlm",
    "mmvp",
    "negbench/coco-mcq",
    "negbench/voc-mcq",
    "negbench/syn-mcq",
    "negbench/chexpert",
    "negrefcocog",
    "cc-neg",
    "countbench",
    "pope/random",
    "hallusionbench",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_true_to_itself(name: str) -> None:
    card = find_single_benchmark(name).card
    assert card.name == name
    assert set(card.by) <= set(card.tags)
    if isinstance(card.aggregation, Macro):
        assert card.aggregation.tag in card.tags
    if card.match is not None:
        assert card.shape == f"{len(card.match)} × {len(card.match[0])}"
    if card.family == "choice":
        captions = int(card.shape.split()[-1])
        assert card.chance == {"accuracy": 1 / captions}
    if card.family == "pairs":
        assert card.chance == {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6}
