"""Lists of words, and the caption pairs drawn from them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contrapose.build.edits.recipe import EditRecipe, load_recipe
from contrapose.errors import InputError


def write(folder: Path, value: Any) -> Path:
    path = folder / "lists.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def rules(**changes: Any) -> dict[str, Any]:
    rule = {
        "kind": "object", "changes": "object", "templates": ["a {object} {place}"],
        "groups": [{"object": ["cat", "dog"], "place": ["on a mat"]}],
    }  # fmt: skip
    return {"rules": [{**rule, **changes}]}


def test_the_paper_s_lists_give_its_captions() -> None:
    recipe = load_recipe(None)
    assert recipe.kinds() == ("object", "scene", "attribute")
    # Figure 15: pairs of animals of one set, times its scenes, times photo and painting.
    sets = [(7, 4), (7, 5), (3, 4), (3, 3), (2, 2), (5, 2), (2, 2), (4, 3)]
    objects = sum(n * (n - 1) // 2 * scenes * 2 for n, scenes in sets)
    # A place without a scene, or with one: pairs of 7, 6, 6 and 4.
    scenes = 21 + 15 + 15 + 6
    attributes = 2 * 2 * 15 + 2 * 2 * 6 + 10 * 6
    assert recipe.count_pairs() == {"object": objects, "scene": scenes, "attribute": attributes}
    texts = {text for one in recipe.draw(900, seed=3) for text in one.captions}
    assert "A photo of zebra in the zoo." in texts
    assert "A painting of cat wearing a cap." in texts
    assert "A photo of beach." in texts
    assert all("  " not in text and " ." not in text for text in texts)


def test_no_pair_comes_twice_before_all_came_once() -> None:
    recipe = load_recipe(None).restrict(["scene"])
    prompts = recipe.draw(2 * 57, seed=0)
    counts = Counter(frozenset(one.captions) for one in prompts)
    assert set(counts.values()) == {2}
    assert len({frozenset(one.captions) for one in prompts[:57]}) == 57
    assert len({one.seed for one in prompts}) == len(prompts)
    assert all(0 <= one.seed < 1 << 31 for one in prompts)
    assert len({one.id for one in prompts}) == len(prompts)


def test_a_longer_draw_begins_like_a_shorter_one() -> None:
    recipe = load_recipe(None)
    assert recipe.draw(300, seed=5)[:40] == recipe.draw(40, seed=5)
    assert recipe.draw(40, seed=5) != recipe.draw(40, seed=6)
    kinds = Counter(one.kind for one in recipe.draw(300, seed=5))
    assert set(kinds.values()) == {100}


def test_without_bare_captions() -> None:
    recipe = load_recipe(None).restrict((), bare=False)
    assert all(all(one.values) for one in recipe.draw(600, seed=1))
    assert any(not all(one.values) for one in load_recipe(None).draw(600, seed=1))


def test_instructions() -> None:
    for one in load_recipe(None).restrict(["scene"]).draw(57, seed=2):
        old, new = one.values
        assert (new or old) in one.instruction
        assert one.captions[0] != one.captions[1]


@pytest.mark.parametrize(
    ("words", "places", "seed"), [([2], 1, 0), ([5, 2, 3], 1, 1), ([6, 3], 4, 2), ([4, 4], 3, 3)]
)
def test_every_combination_is_drawn_once(words: list[int], places: int, seed: int) -> None:
    groups = [
        {"object": [f"w{g}.{i}" for i in range(n)], "place": [f"p{i}" for i in range(places)]}
        for g, n in enumerate(words)
    ]
    value = rules(templates=["{object} {place}", "the {object}"], groups=groups)
    recipe = _parse(value)
    total = sum(n * (n - 1) // 2 * (places + 1) for n in words)
    assert recipe.count_pairs() == {"object": total}
    drawn = [frozenset(one.captions) for one in recipe.draw(total, seed)]
    assert len(set(drawn)) == total


def _parse(value: Any) -> EditRecipe:
    from contrapose.build.edits import recipe

    return recipe._parse_recipe(value, Path("lists.json"))


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ({}, "rules"),
        ({"rules": []}, "rules"),
        ({"rules": [3]}, "rule 1"),
        (rules(extra=1), "extra"),
        (rules(templates=["a {thing}"]), "object"),
        (rules(templates=["a {object} {thing}"]), "thing"),
        (rules(templates="a {object}"), "templates"),
        (rules(groups=[{"object": ["cat"], "place": [""]}]), "two words"),
        (rules(groups=[{"object": ["cat", "cat"], "place": [""]}]), "twice"),
        (rules(groups=[{"object": ["cat", "cat "], "place": [""]}]), "same caption"),
        (rules(groups=[{"object": ["cat", 3], "place": [""]}]), "text"),
        (rules(groups=[{"object": ["cat", "a\nb"], "place": [""]}]), "one line"),
        (rules(groups=[{"object": ["cat", "x" * 999], "place": [""]}]), "characters"),
        (rules(groups={}), "groups"),
        (rules(kind="../x"), "kind"),
        ('{"rules": [{"kind": "a", "kind": "b"}]}', "twice"),
    ],
)
def test_lists_that_are_wrong_are_refused(tmp_path: Path, value: Any, word: str) -> None:
    with pytest.raises(InputError, match=r"lists\.json") as caught:
        load_recipe(write(tmp_path, value))
    assert word in str(caught.value)


def test_templates_are_no_format_strings(tmp_path: Path) -> None:
    value = rules(templates=["{object.__class__} {object} {place!r} {0}"])
    with pytest.raises(InputError, match="no words"):
        load_recipe(write(tmp_path, value))


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(InputError, match="scene"):
        load_recipe(None).restrict(["scenes"])
