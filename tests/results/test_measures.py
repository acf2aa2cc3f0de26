"""Parts by tags, and groups whose means are averaged."""

from __future__ import annotations

import numpy as np
import pytest

from contrapose.data import Macro, Micro, TagValue
from contrapose.errors import InputError
from contrapose.results import Measurements, describe_aggregation
from contrapose.results.measures import group_positions, group_units, units_by_tag


def measured(**tags: tuple[TagValue, ...]) -> Measurements:
    size = len(next(iter(tags.values())))
    return Measurements(tuple(map(str, range(size))), tags, None, {})


def positions(found: dict[str, np.ndarray]) -> dict[str, list[int]]:
    return {name: where.tolist() for name, where in found.items()}


def test_several_values_and_none() -> None:
    tags = measured(diwan=(("odd", "hard"), ("hard",), "", "odd"))
    assert positions(units_by_tag(tags, ["diwan"])) == {"odd": [0, 3], "hard": [0, 1]}


def test_same_name_for_the_same_units_is_one_part() -> None:
    tags = measured(
        subset=("existence", "count-a", "count-b"), phenomenon=("existence", "count", "count")
    )
    found = positions(units_by_tag(tags, ["subset", "phenomenon"]))
    assert found == {"existence": [0], "count-a": [1], "count-b": [2], "count": [1, 2]}


def test_same_name_for_other_units_is_told_apart() -> None:
    tags = measured(subject=("dog", "cat"), object=("cat", "dog"))
    assert set(units_by_tag(tags, ["subject", "object"])) == {
        "subject=dog", "subject=cat", "object=cat", "object=dog",
    }  # fmt: skip


def test_unknown_tag_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="'colour'; tags here: subset"):
        units_by_tag(measured(subset=("a",)), ["colour"])


def test_grouping_drops_and_nests() -> None:
    tags = measured(relation=("on", "near", "on", "under", "over", ""))
    found = group_units(
        tags, Macro("relation", {"vertical": ("under", "over")}, frozenset({"near"}))
    )
    assert found is not None
    assert found.names == ("on", "under", "over")
    assert found.codes.tolist() == [0, -1, 0, 1, 2, -1]
    assert found.parents == (0, 1, 1)
    least = group_units(tags, Macro("relation", least=2))
    assert least is not None
    assert least.names == ("on",)
    assert group_units(tags, Macro("subset")) is None


def test_a_nul_at_the_end_of_a_tag_tells_it_apart() -> None:
    """Arrays of texts drop it, as if `x` and `x\\0` were one value."""
    found = group_units(measured(subset=("x\0", "x", "y", "x\0")), Macro("subset"))
    assert found is not None
    assert found.names == ("x\0", "x", "y")
    assert found.codes.tolist() == [0, 1, 2, 0]


def test_words() -> None:
    assert describe_aggregation(Micro()) == "mean over examples"
    words = describe_aggregation(Macro("subset", {"kubric": ("a", "b", "c")}))
    assert words == "mean over subset means, kubric the mean of its 3"


def test_positions_of_the_values_of_a_tag() -> None:
    groups = group_positions(("b", ("a", "b"), "", "a", ("c", "c"), "b"))
    assert {name: rows.tolist() for name, rows in groups.items()} == {
        "b": [0, 1, 5],
        "a": [1, 3],
        "c": [4],
    }
    assert list(groups) == ["b", "a", "c"]
    assert group_positions(()) == {}
