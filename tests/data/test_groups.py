from __future__ import annotations

from contrapose.data.groups import group_of, tagged_groups


def test_groups_of_tags() -> None:
    assert [group_of(penn) for penn in ("NNS", "VBZ", "IN", "JJR", "CD", "DT", "RB")] == [
        *("O", "R", "R", "A", "A"),
        None,
        None,
    ]


def test_groups_a_text_lacks_are_left_out() -> None:
    assert tagged_groups("a dog and a cat") == {"O": ((2, 5), (12, 15))}
    assert tagged_groups("") == {}
