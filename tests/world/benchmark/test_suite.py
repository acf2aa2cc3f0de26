"""Guarantees of every example (truth, visibility, determinism), and a model that sees no image.

Such a language model is at chance on the balanced form, and above it on the skewed one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import (
    Benchmark,
    ComposedSet,
    EditSet,
    Example,
    Gallery,
    Suite,
    content_ids,
    find_benchmark,
    open_images,
)
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.world.benchmark import PARTS, parse_caption, scene_of, scenes, simat_scenes
from contrapose.world.benchmark.candidates import Form, single_thread
from contrapose.world.benchmark.suite import part_data
from contrapose.world.captions import describe, is_true
from contrapose.world.render import pack, visibility
from contrapose.world.sample import HELD_OUT, sample_scene
from contrapose.world.scene import Scene, holds

FORMS: tuple[Form, Form] = ("balanced", "skewed")
LISTED = tuple(name for name, part in PARTS.items() if part.propose is not None)
COUNT = 25


def examples_of(part: str, form: Form, count: int = COUNT, seed: int = 3) -> list[Example]:
    data = part_data(part, form, count, seed, 96)
    assert not isinstance(data, Gallery | EditSet | ComposedSet)
    return list(data)


def truth(text: str, scene: Scene) -> bool | None:
    caption = parse_caption(text)
    assert caption is not None, text
    return is_true(caption, scene)


def test_the_suite_has_every_part_in_both_forms() -> None:
    for name in ("scenes", "scenes-skewed"):
        suite = find_benchmark(name)
        assert isinstance(suite, Suite)
        assert tuple(suite.parts) == (
            "location", "counting", "attribute", "replace-color", "replace-shape", "replace-size",
            "replace-material", "replace-relation", "replace-count", "swap-attribute",
            "swap-relation", "add", "order", "hard-positives", "gallery", "edits", "held-out",
        )  # fmt: skip
        part = find_benchmark(f"{name}/swap-relation")
        assert isinstance(part, Benchmark)
        assert part.generated
        assert part.card.name == f"{name}/swap-relation"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", LISTED)
def test_right_is_true_and_wrong_is_false(part: str, form: Form) -> None:
    for example in examples_of(part, form):
        shape = "{} × {}".format(*example.shape)
        assert shape == PARTS[part].shape
        assert len(set(example.texts)) == len(example.texts)
        assert example.tags["subset"] == part
        assert example.tags["world"] == form
        for ref, row in zip(example.images, example.match, strict=True):
            for text, right in zip(example.texts, row, strict=True):
                if part != "order" or right or parse_caption(text) is not None:
                    assert truth(text, scene_of(ref)) is right, (text, right)


@pytest.mark.parametrize("form", FORMS)
def test_every_thing_is_visible_at_the_final_size(form: Form) -> None:
    every = [scene_of(r) for part in LISTED for e in examples_of(part, form) for r in e.images]
    packed = pack(every)
    with single_thread():
        fractions, areas = visibility(packed, 96)
    assert float(fractions[packed.valid].min()) >= 0.45
    assert int(areas[packed.valid].min()) >= 40


@pytest.mark.parametrize("part", ["location", "counting", "attribute"])
def test_two_scenes_differ_in_the_change_alone(part: str) -> None:
    for example in examples_of(part, "balanced"):
        one, other = (scene_of(ref) for ref in example.images)
        assert (one.camera, one.light, one.ground) == (other.camera, other.light, other.ground)
        common = set(one.things) & set(other.things)
        if part == "attribute":
            assert len(common) >= len(one.things) - 1
            (slot,) = {s for a, b in zip(one.things, other.things, strict=True)
                       for s in ("shape", "color", "size", "material", "pattern", "x", "y", "turn")
                       if getattr(a, s) != getattr(b, s)}  # fmt: skip
            assert slot == example.tags["attribute"]
        elif part == "counting":
            assert abs(len(one.things) - len(other.things)) > 0
        else:
            assert len(common) >= len(one.things) - 2


def test_the_right_caption_stands_anywhere() -> None:
    for part, places in (("replace-color", 2), ("order", 5)):
        right = {example.match[0].index(True) for example in examples_of(part, "balanced")}
        assert right == set(range(places))


def test_swapped_attributes_are_colors_of_two_things() -> None:
    for example in examples_of("swap-attribute", "balanced"):
        captions = [parse_caption(text) for text in example.texts]
        colors = [[m.color for m in caption.mentions] for caption in captions if caption]
        assert colors[0] == colors[1][::-1]
        assert colors[0][0] != colors[0][1]


def test_relations_are_between_different_things() -> None:
    for example in examples_of("swap-relation", "balanced"):
        caption = parse_caption(example.texts[example.match[0].index(True)])
        assert caption is not None
        assert caption.relation == example.tags["relation"]
        scene = scene_of(example.images[0])
        things = range(len(scene.things))
        assert any(holds(scene, i, caption.relation, j) for i in things for j in things if i != j)


def test_held_out_pairs_are_in_their_own_part_only() -> None:
    for part in LISTED:
        for form in FORMS:
            for example in examples_of(part, form):
                pairs = {(t.color, t.shape) for r in example.images for t in scene_of(r).things}
                said = {
                    (m.color, m.shape)
                    for text in example.texts
                    if (caption := parse_caption(text)) is not None
                    for m in caption.mentions
                }
                if part == "held-out":
                    assert pairs & HELD_OUT
                    assert said & HELD_OUT
                elif part == "order":
                    assert not pairs & HELD_OUT
                else:
                    assert not (pairs | said) & HELD_OUT


def test_an_added_caption_is_the_longer() -> None:
    for example in examples_of("add", "balanced"):
        right = example.match[0].index(True)
        assert len(example.texts[right]) < len(example.texts[1 - right])


@pytest.mark.parametrize("form", FORMS)
def test_gallery_captions_are_true_of_one_scene_alone(form: Form) -> None:
    gallery = part_data("gallery", form, 60, 0, 96)
    assert isinstance(gallery, Gallery)
    places = [scene_of(ref) for ref in gallery.images]
    for j, text in enumerate(gallery.texts):
        assert [truth(text, scene) for scene in places] == [i == j for i in range(60)]


@pytest.mark.parametrize("form", FORMS)
def test_edit_captions_are_true_of_their_images_alone(form: Form) -> None:
    edits = part_data("edits", form, 40, 0, 96)
    assert isinstance(edits, EditSet)
    for j, text in enumerate(edits.captions):
        has = [truth(text, scene_of(ref)) for ref in edits.images]
        assert has == [caption == j for caption in edits.caption_of]
    for query in edits.queries:
        now = edits.captions[query.caption].split()
        then = edits.captions[query.target_caption].split()
        changed = [(a, b) for a, b in zip(now, then, strict=True) if a != b]
        assert (query.source, query.target) in changed
        assert all({a, b} == {"a", "an"} for a, b in changed if a != query.source)
        assert edits.caption_of[query.image] == query.caption
        assert query.target_caption in edits.caption_of


@pytest.mark.parametrize("form", FORMS)
def test_the_word_to_change_names_one_thing_alone(form: Form) -> None:
    edits = part_data("edits", form, 200, 0, 96)
    assert isinstance(edits, EditSet)
    words = [edits.captions[query.caption].split() for query in edits.queries]
    counts = [some.count(query.source) for some, query in zip(words, edits.queries, strict=True)]
    assert counts == [1] * 200


def test_simat_scenes_begins_with_the_edits_of_scenes() -> None:
    benchmark = simat_scenes(examples=12)
    longer = benchmark.read(Path(), StrictProblems())
    shorter = part_data("edits", "balanced", 10, 0, 96)
    assert isinstance(longer, EditSet)
    assert isinstance(shorter, EditSet)
    assert longer.images[:20] == shorter.images
    assert benchmark.card.name == "simat-scenes"
    assert find_benchmark("simat-scenes").card.shape == "2,000 images, 1,000 queries"  # type: ignore[union-attr]


@pytest.mark.parametrize("model", ["tiny", "tiny-clip"])
def test_deltas_on_simat_scenes(model: str) -> None:
    """A delta beats no delta, the target caption is the upper bound, the best λ lies inside."""
    scores = ["itc:image", "itc:delta:scale=dev", "itc:text"]
    runs = cp.evaluate(model, on=simat_scenes(examples=60), score=scores, device="cpu", cache=False)
    image, delta, text = runs
    metrics = [run.metrics["simat_n5"] for run in (image, delta, text)]
    assert metrics[0].value < metrics[1].value < metrics[2].value
    interval = cp.compare(image, delta).metrics["simat_n5"].ci95
    assert interval is not None
    assert interval[0] > 0
    curve = next(iter(delta.record.spec["edits"].values()))["dev_scores"]
    best = max(value for _, value in curve)
    assert curve[0][1] < best > curve[-1][1]


def test_examples_do_not_depend_on_how_many_are_asked_for() -> None:
    for part in ("location", "replace-size", "order"):
        assert examples_of(part, "balanced", 7) == examples_of(part, "balanced", 19)[:7]
        assert examples_of(part, "balanced", 7) != examples_of(part, "balanced", 7, seed=4)
    few, many = (part_data("gallery", "skewed", n, 0, 96) for n in (20, 45))
    assert isinstance(few, Gallery)
    assert isinstance(many, Gallery)
    assert few.texts == many.texts[:20]
    assert few.images == many.images[:20]
    one, two = (part_data("edits", "balanced", n, 0, 96) for n in (10, 15))
    assert isinstance(one, EditSet)
    assert isinstance(two, EditSet)
    assert one.images == two.images[:20]
    assert [q.target for q in one.queries] == [q.target for q in two.queries[:10]]


def test_images_are_rendered_on_demand() -> None:
    suite = scenes(examples=3, seed=1, size=32)
    data = suite.parts["attribute"].read(Path(), StrictProblems())
    assert not isinstance(data, Gallery | EditSet | ComposedSet)
    refs = [ref for example in data for ref in example.images]
    pictures = open_images(refs)
    assert all(picture.size == (32, 32) and picture.mode == "RGB" for picture in pictures)
    assert len(set(content_ids(refs))) == len(refs)
    alone = open_images(refs[3:4])[0]
    assert np.array_equal(np.asarray(alone), np.asarray(pictures[3]))


@pytest.mark.parametrize(("wrong", "says"), [({"examples": 0}, "at least one example"),
                                             ({"size": 0}, "one pixel")])  # fmt: skip
def test_zero_examples_or_pixels_are_refused(wrong: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        scenes("balanced", **wrong)


def test_an_unknown_part_or_form_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean swap-relation"):
        find_benchmark("scenes/swap-relations")
    with pytest.raises(InputError, match="not a form of scenes"):
        scenes("tilted")  # type: ignore[arg-type]


Blind = Callable[[str], float]


@pytest.fixture(scope="module")
def blind() -> Blind:
    """A smoothed bigram model of captions of the training world."""
    ones: Counter[str] = Counter()
    twos: Counter[tuple[str, str]] = Counter()
    for i in range(2000):
        caption = describe(sample_scene(99, i), np.random.default_rng((99, i)))
        if caption is not None:
            words = _words(caption.text)
            ones.update(words)
            twos.update(pairwise(words))
    total = sum(ones.values())

    def score(text: str) -> float:
        words = _words(text)
        pairs = list(pairwise(words))
        logs = (
            math.log((twos[a, b] + 5 * ones[b] / total + 1e-4) / (ones[a] + 5)) for a, b in pairs
        )
        return sum(logs) / len(pairs)

    return score


def test_the_prior_helps_on_the_skewed_form_alone(blind: Blind) -> None:
    parts = ("replace-color", "replace-shape", "swap-attribute", "replace-count")
    assert abs(_accuracy(blind, parts, "balanced") - 0.5) < 0.07
    assert _accuracy(blind, parts, "skewed") > 0.65


def test_the_prior_is_against_held_out_pairs(blind: Blind) -> None:
    assert _accuracy(blind, ("held-out",), "balanced") < 0.4


def _accuracy(blind: Blind, parts: tuple[str, ...], form: Form) -> float:
    hits = []
    for part in parts:
        data = part_data(part, form, 80, 11, 96)
        assert not isinstance(data, Gallery | EditSet | ComposedSet)
        for example in data:
            right = example.match[0].index(True)
            hits.append(blind(example.texts[right]) > blind(example.texts[1 - right]))
    return float(np.mean(hits))


def _words(text: str) -> list[str]:
    return ["<", *text.replace(",", " ,").split(), ">"]
