"""Queries on an index of colors: every kind, every fusion, the calibration of λ, and refusals."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from contrapose.errors import InputError
from contrapose.metrics.fusion import FUSIONS, fuse
from contrapose.search.queries import (
    SearchQuery,
    WordChange,
    calibrate_scale,
    parse_change,
    sentence_pairs,
)
from contrapose.search.searcher import Searcher
from contrapose.search.writer import IndexRequest, build_index
from tests.search.photos import COLORS, ColorModel, write_photos

RED_TO_BLUE = (WordChange("red", "blue"),)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"), 40)


@pytest.fixture(scope="module")
def searcher(photos: Path) -> Searcher:
    model = ColorModel()
    index = build_index(IndexRequest(photos), model).index
    return Searcher(index, model, subjects=list(COLORS), styles=["red and blue", "green, white"])


def colors(result: Any) -> list[str]:
    return [Path(hit.path).name.partition("-")[0] for hit in result.hits]


def test_text_query(searcher: Searcher) -> None:
    result = searcher.search(SearchQuery(text="green"), 5)
    assert colors(result) == ["green"] * 5
    assert (result.fusion, result.scale, result.left_out) == ("text", None, ())
    assert [hit.rank for hit in result.hits] == [1, 2, 3, 4, 5]
    assert result.hits[0].score == pytest.approx(result.hits[0].text_cosine, abs=1e-6)
    assert result.hits[0].image_cosine is None


def test_image_query_leaves_its_own_content_out(searcher: Searcher, photos: Path) -> None:
    file = photos / "more" / "red-0.png"
    by_path = searcher.search(SearchQuery(image=file), 40)
    assert by_path.left_out == ("more/red-0.png",)
    assert len(by_path.hits) == 39
    assert colors(by_path)[:7] == ["red"] * 7
    by_bytes = searcher.search(SearchQuery(image=file.read_bytes()), 40)
    assert by_bytes.hits == by_path.hits
    # An image that the index does not hold is embedded, and nothing is left out.
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), (200, 20, 20)).save(stream, "PNG")
    outside = searcher.search(SearchQuery(image=stream.getvalue()), 3)
    assert outside.left_out == ()
    assert colors(outside) == ["red"] * 3


def test_image_with_a_change(searcher: Searcher, photos: Path) -> None:
    query = SearchQuery(image=photos / "more" / "red-0.png", changes=RED_TO_BLUE)
    result = searcher.search(query, 5)
    assert colors(result) == ["blue"] * 5
    assert (result.fusion, result.calibrated) == ("delta", True)
    assert result.scale is not None
    assert result.scale > 0
    assert "calibrated" in " ".join(result.notes)
    assert result.hits[0].changes[0] > 0
    unchanged = SearchQuery(image=query.image, changes=RED_TO_BLUE, scale=0.0)
    fixed = searcher.search(unchanged, 5)
    assert colors(fixed) == ["red"] * 5
    assert not fixed.calibrated


def test_several_changes_and_words_to_avoid(searcher: Searcher, photos: Path) -> None:
    image = photos / "more" / "red-0.png"
    two = (WordChange("red", "green"), WordChange("green", "blue"))
    result = searcher.search(SearchQuery(image=image, changes=two), 3)
    assert len(result.hits[0].changes) == 2
    assert colors(result) == ["blue"] * 3
    without = SearchQuery(text="red white", changes=(WordChange("red", ""),))
    avoided = searcher.search(without, 3)
    assert "red" not in colors(avoided)
    assert avoided.scale == 1.0
    added = searcher.search(SearchQuery(image=image, changes=(WordChange("", "green"),)), 3)
    assert len(added.hits) == 3


@pytest.mark.parametrize("name", ["sum", "product", "weicom", "basic"])
def test_fusions_of_image_and_text(searcher: Searcher, photos: Path, name: str) -> None:
    image = photos / "more" / "red-0.png"
    result = searcher.search(SearchQuery(image=image, text="blue", fusion=name), 40)
    row = searcher.index.find_path("more/red-0.png")
    assert row is not None
    statistics = searcher._basic_statistics() if name == "basic" else None
    scores = fuse(
        name,
        searcher.index.vectors,
        image=searcher.index.vectors[[row]],
        text=searcher.embed_texts(["blue"]),
        statistics=statistics,
    )[0]
    expected = [i for i in np.lexsort((np.arange(40), -scores)).tolist() if i != row]
    assert [hit.row for hit in result.hits] == expected
    assert result.scale == FUSIONS[name].scale
    # The targets of changes are the text where the fusion needs one.
    by_change = searcher.search(SearchQuery(image=image, changes=RED_TO_BLUE, fusion=name), 40)
    assert [hit.row for hit in by_change.hits] == expected


def test_text_image_and_change_together(searcher: Searcher, photos: Path) -> None:
    query = SearchQuery(
        text="blue", image=photos / "more" / "red-0.png", changes=(WordChange("red", "green"),)
    )
    result = searcher.search(query, 3)
    assert result.fusion == "weicom"
    assert "edited" in " ".join(result.notes)


@pytest.mark.parametrize("fusion", ["text", "image"])
def test_fusions_of_one_part_use_no_change(searcher: Searcher, photos: Path, fusion: str) -> None:
    given = {"image": photos / "more" / "red-0.png", "text": "green"}
    edited = SearchQuery(**given, changes=RED_TO_BLUE, fusion=fusion)  # type: ignore[arg-type]
    plain = SearchQuery(**given, fusion=fusion)  # type: ignore[arg-type]
    result = searcher.search(edited, 5)
    assert [hit.row for hit in result.hits] == [hit.row for hit in searcher.search(plain, 5).hits]
    assert colors(result) == ["green" if fusion == "text" else "red"] * 5
    assert not any("edited" in note for note in result.notes)
    assert any("no changes" in note for note in result.notes)


def test_texts_are_embedded_once(photos: Path, searcher: Searcher) -> None:
    model = ColorModel()
    fresh = Searcher(searcher.index, model)
    for scale in (0.2, 0.4, 0.6):
        fresh.search(
            SearchQuery(image=photos / "more" / "red-0.png", changes=RED_TO_BLUE, scale=scale)
        )
    assert model.texts.count("blue") == 1
    assert model.images == 0


def test_words_that_the_model_cannot_tell_apart(searcher: Searcher, photos: Path) -> None:
    query = SearchQuery(image=photos / "more" / "red-0.png", changes=(WordChange("cat", "dog"),))
    result = searcher.search(query, 3)
    assert any("'cat'" in note and "apart" in note for note in result.notes)
    assert colors(result) == ["red"] * 3


def test_sentence_average_deltas(searcher: Searcher, photos: Path) -> None:
    captions = ("a red ball", "Red and white", "a green ball", "reddish things")
    change = RED_TO_BLUE[0]
    assert sentence_pairs(change, captions) == [
        ("a red ball", "a blue ball"), ("Red and white", "blue and white"),
    ]  # fmt: skip
    image = photos / "more" / "red-0.png"
    query = SearchQuery(image=image, changes=RED_TO_BLUE, captions=captions, scale=1.0)
    result = searcher.search(query, 40)
    before = searcher.embed_texts(["a red ball", "Red and white"])
    after = searcher.embed_texts(["a blue ball", "blue and white"])
    delta = (after - before).mean(axis=0)
    vectors = searcher.index.vectors
    assert result.hits[0].changes[0] == pytest.approx(
        float(vectors[result.hits[0].row] @ delta), abs=1e-5
    )
    with pytest.raises(InputError, match="'pink'"):
        searcher.search(
            SearchQuery(image=image, changes=(WordChange("pink", "red"),), captions=captions)
        )


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_the_calibrated_query_lies_as_far_along_as_real_images(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample = rng.normal(size=(size, 5))
    sample /= np.linalg.norm(sample, axis=1, keepdims=True)
    base = sample[0]
    direction = rng.normal(size=5) * 0.5
    scale = calibrate_scale(base, direction, sample)
    query = base + scale * direction
    query /= np.linalg.norm(query)
    along = np.sort(sample @ direction)[::-1]
    goal = float(along[: max(1, round(0.05 * size))].mean())
    length = float(np.linalg.norm(direction))
    if base @ direction >= goal:
        assert scale == pytest.approx(0.0, abs=1e-9)
    elif scale < 10 and goal < 0.999 * length:
        assert float(query @ direction) == pytest.approx(goal, abs=1e-6)
    # A direction that is twice as long needs half the λ for the same query.
    if 0 < scale < 5:
        assert calibrate_scale(base, 2 * direction, sample) == pytest.approx(scale / 2, abs=1e-9)


def test_a_change_of_nothing_has_lambda_zero() -> None:
    assert calibrate_scale(np.eye(3)[0], np.zeros(3), np.eye(3)) == 0.0


def test_changes_are_parsed() -> None:
    assert parse_change("cat -> a dog") == WordChange("cat", "a dog")
    assert parse_change("cat→dog") == WordChange("cat", "dog")
    assert parse_change(" -> dog") == WordChange("", "dog")
    for text in ("cat", "a -> b -> c", " -> ", "cat -> cat"):
        with pytest.raises(InputError, match="change"):
            parse_change(text)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, "needs a text"),
        ({"changes": RED_TO_BLUE}, "image"),
        ({"text": "  "}, "empty"),
        ({"text": "red", "fusion": "sum"}, "image"),
        ({"text": "red", "fusion": "nearest"}, "no fusion"),
        ({"image": b"x", "fusion": "sum"}, "text"),
        ({"image": b"x", "fusion": "text"}, "text"),
        ({"image": b"x", "fusion": "delta"}, "change"),
        ({"image": b"x", "text": "red", "changes": RED_TO_BLUE, "fusion": "delta"}, "takes no"),
        ({"image": b"x", "text": "red", "scale": 2.0}, "from 0 to 1"),
        ({"text": "red", "scale": 1.0}, "no λ"),
        ({"image": b"not an image"}, "query image"),
        ({"image": Path("absent.png")}, "not there"),
        ({"image": b"x", "changes": RED_TO_BLUE, "scale": math.nan}, "λ"),
    ],
)
def test_bad_queries_are_refused(searcher: Searcher, query: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        searcher.search(SearchQuery(**query), 3)


def test_another_model_is_refused(searcher: Searcher) -> None:
    with pytest.raises(InputError, match="another model"):
        Searcher(searcher.index, ColorModel(fingerprint="colors-2"))
    with pytest.raises(InputError, match="k"):
        searcher.search(SearchQuery(text="red"), 0)


def test_subjects_that_the_model_cannot_tell_apart(searcher: Searcher, photos: Path) -> None:
    plain = Searcher(searcher.index, ColorModel(), subjects=["cat", "dog"], styles=["old", "new"])
    query = SearchQuery(image=photos / "more" / "red-0.png", text="blue", fusion="basic")
    with pytest.raises(InputError, match="subjects"):
        plain.search(query)


class ColorTexts(ColorModel):
    """Text encoder alone, which declares a space."""

    sides = ("text",)

    def __init__(self, space: str = "", width: int = 4):
        super().__init__(name="words", fingerprint="words-1")
        self.space, self.width = space, width

    def embed_texts(self, texts: Sequence[str]) -> Any:
        return super().embed_texts(texts)[:, : self.width]


def test_a_text_encoder_of_the_same_space(searcher: Searcher, photos: Path) -> None:
    index, loads = searcher.index, []

    def load() -> ColorModel:
        loads.append(1)
        return ColorModel()

    expected = searcher.search(SearchQuery(text="green"), 8)
    for space in (index.fingerprint, index.model):
        apart = Searcher(index, ColorTexts(space), subjects=list(COLORS), load_image_model=load)
        assert apart.search(SearchQuery(text="green"), 8).hits == expected.hits
    held = SearchQuery(image=photos / "more" / "red-0.png", changes=RED_TO_BLUE)
    assert apart.search(held, 8).hits == searcher.search(held, 8).hits
    assert not loads
    stream = io.BytesIO()
    Image.new("RGB", (9, 9), (250, 8, 3)).save(stream, "PNG")
    new = SearchQuery(image=stream.getvalue(), changes=RED_TO_BLUE)
    for one in (apart, apart, apart.with_index(index)):
        assert one.search(new, 8).hits == searcher.search(new, 8).hits
    assert len(loads) == 1
    with pytest.raises(InputError, match="cannot embed images"):
        Searcher(index, ColorTexts(index.model), subjects=list(COLORS)).search(new, 8)


def test_a_text_encoder_of_another_space_is_refused(searcher: Searcher) -> None:
    with pytest.raises(InputError, match=r"space.*joined\.json"):
        Searcher(searcher.index, ColorTexts())
    with pytest.raises(InputError, match=r"vectors of 2 numbers.*index have"):
        Searcher(searcher.index, ColorTexts(searcher.index.model, 2), subjects=list(COLORS))
    both = ColorModel(fingerprint="colors-2")
    both.space = searcher.index.fingerprint  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="another model"):
        Searcher(searcher.index, both)
