"""Captions packed into rows come back as they went in."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from contrapose.models import Ragged
from contrapose.models.packing import pack, ragged_logprobs, sum_per_caption, target_logprobs

CAPTION = st.lists(st.integers(1, 9), min_size=2, max_size=6)
PAIRS = st.lists(st.tuples(CAPTION, st.integers(0, 3)), min_size=1, max_size=8)


@given(PAIRS, st.integers(1, 14))
def test_what_foretells_a_token_is_the_one_before_it(
    pairs: list[tuple[list[int], int]], longest: int
) -> None:
    captions, images = [each for each, _ in pairs], [image for _, image in pairs]
    packed = pack(captions, images, longest=longest)
    rows, length = packed.tokens.shape
    assert len(packed.row_images) == rows
    for i, caption in enumerate(captions):
        here = slice(packed.offsets[i], packed.offsets[i + 1])
        assert packed.targets[here].tolist() == caption[1:]
        sources = packed.sources[here]
        assert packed.tokens.flatten()[sources].tolist() == caption[:-1]
        assert packed.positions.flatten()[sources].tolist() == list(range(len(caption) - 1))
        assert packed.owners.flatten()[sources].tolist() == [i] * (len(caption) - 1)
        assert {packed.row_images[at // length] for at in sources.tolist()} == {images[i]}
    together = [sum(row != -1 for row in owners) for owners in packed.owners.tolist()]
    alone = max(len(each) - 1 for each in captions)
    assert max(together) <= max(longest, alone)


@given(PAIRS)
def test_nobody_sees_another_caption_or_a_later_word(pairs: list[tuple[list[int], int]]) -> None:
    packed = pack([each for each, _ in pairs], [image for _, image in pairs])
    for causal in (True, False):
        allowed = packed.attention_mask(2, causal=causal)
        rows, _, length, _ = allowed.shape
        assert allowed[..., :2].all()
        for row in range(rows):
            for i in range(length):
                for j in range(length):
                    same = packed.owners[row, i] == packed.owners[row, j]
                    assert allowed[row, 0, i, 2 + j] == bool(same and (j <= i or not causal))


def test_an_images_captions_share_a_row_until_it_is_full() -> None:
    captions = [[1, 2, 3, 4]] * 5
    assert pack(captions, [0, 1, 0, 0, 1]).row_images == [0, 1]
    assert pack(captions, [0, 1, 0, 0, 1], longest=6).row_images == [0, 1, 0]
    assert pack(captions, [0, 1, 0, 0, 1], longest=2).row_images == [0, 1, 0, 0, 1]


def test_some_of_the_last_tokens_count() -> None:
    packed = pack([[1, 2, 3, 4], [5, 6]], [0, 0], counted=[2, 1])
    assert packed.targets.tolist() == [3, 4, 6]
    assert packed.sources.tolist() == [1, 2, 3]
    assert packed.offsets == [0, 2, 3]


def test_the_mask_hides_by_the_lowest_number() -> None:
    packed = pack([[1, 2, 3], [4, 5]], [0, 0])
    mask = packed.additive_mask(torch.float16, prefix=1)
    assert mask.dtype == torch.float16
    assert torch.equal(mask == 0, packed.attention_mask(1))
    assert mask.min() == torch.finfo(torch.float16).min


def test_logprobs_are_those_of_a_softmax() -> None:
    logits = torch.randn(4, 7, generator=torch.Generator().manual_seed(0)).half()
    targets = torch.tensor([0, 6, 3, 3])
    wanted = torch.log(torch.softmax(logits.double(), dim=1))[range(4), targets].float()
    torch.testing.assert_close(target_logprobs(logits, targets), wanted)
    packed = pack([[1, 0, 6, 3], [1, 3]], [0, 1])
    found = ragged_logprobs(logits, packed)
    torch.testing.assert_close(found.values, wanted)
    torch.testing.assert_close(
        sum_per_caption(found), torch.stack([wanted[:3].sum(), wanted[3]]), rtol=1e-6, atol=1e-6
    )
    assert sum_per_caption(Ragged(torch.tensor([1.0, 2.0]), torch.tensor([0, 1, 2]))).tolist() == [
        1.0,
        2.0,
    ]
