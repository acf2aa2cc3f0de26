"""Games played with a model: its score for every coalition of words and regions.

A dual encoder's game separates: each masked image and each masked caption is encoded once, and all
scores are one product. For the others every pair of the two is planned through the scoring engine.
Both go to the store as any answer does, and the coalition of all is the plain score itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from contrapose.data import Example
from contrapose.diagnose.masking import Baseline, filling_for
from contrapose.diagnose.planning import Game, plan_games
from contrapose.diagnose.played import LeftOut, Played
from contrapose.diagnose.players import Regions, Words
from contrapose.diagnose.values import Cells, block_cells
from contrapose.errors import InputError
from contrapose.models.masks import require_text_mask
from contrapose.scoring import Asking, require_score
from contrapose.scoring.plan import distinct_images

Side = Literal["text", "image", "mutual", "all"]
SIDES: dict[Side, str] = {
    "text": "the words of two captions play, all of the image is there",
    "image": "the regions of two images play, all of the caption is there",
    "mutual": "words and regions play together",
    "all": "all three",
}
PLAYED = ("itc", "itm", "lm", "vqa")
"""Scores of an image with a caption: what a game can be about."""


def play(
    asking: Asking,
    score: str,
    examples: Sequence[Example],
    words: Words | None,
    regions: Regions | None,
    *,
    side: Side = "all",
    baseline: Baseline | None = None,
) -> list[Played]:
    """Play the games of examples: a block for each kind of players and shape.

    Every cell of a block is asked. On the text side alone there are no image players: the whole
    image is the one coalition there is. On the image side alone likewise there are no text players.
    What could not be played stands in the first block's `left_out`.

    Args:
        asking: who is asked, and how.
        score: `itc`, `itm`, `lm` or `vqa`.
        examples: m images × n captions each; no two may have one id.
        words: finds word groups; needed but for the image side.
        regions: finds regions; needed but for the text side.
        side: which players there are.
        baseline: what stands in place of the absent; zeros unless given.

    Raises:
        InputError: the model cannot give the score or hide words so, there are no players or too
            many, or no example can be played.
    """
    how = baseline or Baseline()
    require_score(asking.model, score)
    if score not in PLAYED:
        raise InputError(
            f"{score!r} is no score of an image with a caption; {', '.join(PLAYED)} are."
        )
    if side != "image":
        require_text_mask(asking.model, how.text, score)
    _require_players(words, regions, side)
    if len({example.id for example in examples}) < len(examples):
        raise InputError("two examples have the same id; diagnose one benchmark at a time.")
    readable, names, left = _readable(asking, examples)
    filling, _ = filling_for(asking.model, how)
    games, unplayed = plan_games(
        readable,
        names,
        None if side == "image" else words,
        None if side == "text" else regions,
        how,
        filling,
    )
    left += unplayed
    _require_some(games, left)
    blocks = _blocks(games)
    played = []
    for block, cells in zip(blocks, block_cells(asking, score, blocks), strict=True):
        left += [LeftOut(block[k].id, skip.detail) for k, skip in cells.skipped.items()]
        played.append(_block(block, cells))
    _require_some([id_ for block in played for id_ in block.ids], left)
    return [replace(played[0], left_out=tuple(left)), *played[1:]]


def _require_players(words: Words | None, regions: Regions | None, side: Side) -> None:
    if side not in SIDES:
        raise InputError(f"there is no side {side!r}; there are {', '.join(SIDES)}.")
    if side != "image" and words is None:
        raise InputError(f"side {side} needs word groups.")
    if side != "text" and regions is None:
        raise InputError(
            f"side {side} needs regions, and these images have none: pass --regions FILE, "
            "--players superpixels, or --side text."
        )


def _readable(
    asking: Asking, examples: Sequence[Example]
) -> tuple[list[Example], list[list[str]], list[LeftOut]]:
    """Examples whose images can be read, the images' content ids, and the others."""
    images = distinct_images([ref for example in examples for ref in example.images])
    asking.skips.images.update(images.lost)
    kept: list[Example] = []
    names: list[list[str]] = []
    left: list[LeftOut] = []
    start = 0
    for example in examples:
        end = start + len(example.images)
        own = [images.ids[i] for i in images.at[start:end].tolist()]
        start = end
        lost = next((images.lost[name] for name in own if name in images.lost), None)
        if lost is None:
            kept.append(example)
            names.append(own)
        else:
            left.append(LeftOut(example.id, lost.detail))
    return kept, names, left


def _require_some(games: Sequence[object], left: Sequence[LeftOut]) -> None:
    """Raise `InputError` with the commonest reason where there is nothing to play."""
    if games:
        return
    if not left:
        raise InputError("there are no examples to diagnose.")
    reason, count = Counter(each.reason for each in left).most_common(1)[0]
    raise InputError(
        f"none of {len(left):,} examples can be played ({reason}: {count:,}); give word groups "
        "with --groups FILE, or regions with --regions FILE."
    )


def _blocks(games: Sequence[Game]) -> list[list[Game]]:
    """Games of one kind together, in order of first appearance."""
    blocks: dict[object, list[Game]] = {}
    for game in games:
        blocks.setdefault(game.kind, []).append(game)
    return list(blocks.values())


def _block(games: Sequence[Game], cells: Cells) -> Played:
    """The games that have all their answers."""
    keep = [k for k in range(len(games)) if k not in cells.skipped]
    image_players, text_players, m, n = games[0].kind
    match = np.array([games[k].match for k in keep], dtype=np.bool_).reshape(len(keep), m, n)
    return Played(
        ids=tuple(games[k].id for k in keep),
        images=tuple(games[k].names for k in keep),
        match=match,
        values=cells.values[keep],
        image_players=image_players,
        text_players=text_players,
        encodings=cells.encodings,
        pairs=cells.pairs,
        naive=cells.naive,
    )
