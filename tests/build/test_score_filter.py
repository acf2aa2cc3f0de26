"""The filter by an image-text score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.api.build_edits import load_filter
from contrapose.build.score_filter import compute_margins, split_filter
from contrapose.errors import InputError

LEVELS = {"dark": 0, "gray": 100, "bright": 200}


def match(image: Image.Image, caption: str) -> float:
    """Distance of an image's brightness from that of the word in its caption, negated."""
    level = LEVELS[caption.rsplit(maxsplit=1)[-1]]
    return -abs(float(np.asarray(image).mean()) - level)


def row(
    folder: Path, name: str, levels: tuple[int, int], words: tuple[str, str]
) -> dict[str, object]:
    images = []
    for i, level in enumerate(levels):
        images.append(f"{name}_{i}.png")
        Image.new("RGB", (8, 8), (level,) * 3).save(folder / images[-1])
    return {"id": name, "images": images, "captions": [f"it is {word}" for word in words]}


def test_both_images_must_prefer_their_own_caption(tmp_path: Path) -> None:
    rows = [
        row(tmp_path, "right", (0, 200), ("dark", "bright")),
        row(tmp_path, "swapped", (200, 0), ("dark", "bright")),
        row(tmp_path, "half", (0, 60), ("dark", "bright")),
        row(tmp_path, "tie", (0, 100), ("dark", "bright")),
        row(tmp_path, "weak", (40, 160), ("dark", "bright")),
    ]

    def keep(margin: float, minimum: float | None = None) -> tuple[set[str], dict[str, int]]:
        chosen = load_filter(match, margin, minimum, device="cpu", cache=False, progress=None)
        assert chosen is not None
        result = chosen.choose(rows, tmp_path)
        return set(result.tags), dict(result.counts)

    assert keep(0) == ({"right", "weak"}, {"own caption preferred": 2})
    assert keep(0, -10) == (
        {"right"}, {"own caption preferred": 2, "score high enough": 1},
    )  # fmt: skip
    assert keep(119)[0] == {"right", "weak"}
    assert keep(120)[0] == {"right"}  # strictly more
    assert keep(-1)[0] == {"right", "weak", "tie"}


def test_margins() -> None:
    scores = np.array([[[3.0, 1.0], [0.0, 5.0]], [[1.0, 1.0], [0.0, 5.0]]])
    assert compute_margins(scores).tolist() == [2.0, 0.0]


def test_an_image_that_cannot_be_read_is_not_kept(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a", (0, 200), ("dark", "bright"))]
    (tmp_path / "a_1.png").write_bytes(b"damaged")
    chosen = load_filter(match, -1e9, None, device="cpu", cache=False, progress=None)
    assert chosen is not None
    assert chosen.choose(rows, tmp_path).tags == {}


def test_names_of_models_with_scores() -> None:
    assert split_filter("tiny:itm") == ("tiny", "itm")
    assert split_filter("hf:openai/clip") == ("hf:openai/clip", None)
    assert split_filter("hf:openai/clip:itc") == ("hf:openai/clip", "itc")
    assert split_filter("itc") == ("itc", None)


def test_filters_that_cannot_be() -> None:
    options = {"device": "cpu", "cache": False, "progress": None}
    for name, margin, minimum, word in (
        (None, 0.5, None, "filter"),
        (None, 0.0, 0.5, "filter"),
        (match, float("nan"), None, "margin"),
        (match, 0.0, float("inf"), "min_score"),
        ("tiny-clip:itm", 0.0, None, "itm"),
        ("no-such-model", 0.0, None, "no-such-model"),
    ):
        with pytest.raises(InputError, match=word):
            load_filter(name, margin, minimum, **options)  # type: ignore[arg-type]
