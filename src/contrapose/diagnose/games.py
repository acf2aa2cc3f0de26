"""Games played with a model: its score for every coalition of words and regions.

A dual encoder's game separates: each masked image and each masked caption is encoded once, and all
scores are one matrix product. For other models every pair is planned through the scoring engine.
Both go to the store as any score does, and the full coalition is the plain score itself.

A dual encoder's game separates: each masked image and each masked caption is encoded once, and all
scores are one product. For the others every pair of the two is planned through the scoring engine.
Both go to the store as any answer does, and the coalition of all is the plain score itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from contrapose.data import Example
from contrapose.diagnose.game_blocks import GameBlock, UnplayedExample
from contrapose.diagnose.planning import Baseline, Game, choose_fill, plan_games
from contrapose.diagnose.players import RegionFinder, WordFinder
from contrapose.engine import ScoringContext, require_score
from contrapose.engine.examples import MAX_CELLS, score_pairs
from contrapose.engine.plan import compute_text_ids, distinct_images, distinct_texts, plan_cells
from contrapose.engine.scoring import compute_caption_ids, embed_distinct
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray
from contrapose.models.masking.text import require_text_mask
from contrapose.scores.skips import UNKNOWN_SKIP, Skip


@dataclass(frozen=True, slots=True, eq=False)
class BlockScores:
    """Scores of a block of games, and their cost.

    Attributes:
        values: (k, m, n, 2**a, 2**b); NaN where there is no answer.
        skipped: for each game that has such a cell why.
        encodings: images and captions encoded for these games and for none before them.
        pairs: pairs scored likewise.
        naive: the same if every cell were asked anew.
    """

    values: FloatArray
    skipped: dict[int, Skip]
    encodings: int
    pairs: int
    naive: int


def score_blocks(
    asking: ScoringContext, score: str, blocks: Sequence[Sequence[Game]]
) -> list[BlockScores]:
    """Score the cells of all blocks in one pass.

    Args:
        asking: who is asked, and how.
        score: `itc` separates; the others ask pairs.
        blocks: games of one kind each.
    """
    refs = [ref for block in blocks for game in block for row in game.images for ref in row]
    texts = [text for block in blocks for game in block for row in game.texts for text in row]
    images = distinct_images(refs)
    asking.skips.images.update(images.lost)
    captions, text_at = distinct_texts(texts)
    ids = compute_caption_ids(asking, captions, compute_text_ids(captions))
    seats, image_start, text_start = [], 0, 0
    for block in blocks:
        image_players, text_players, m, n = block[0].kind
        shape = len(block), m, 1 << len(image_players)
        other = len(block), n, 1 << len(text_players)
        seen = images.at[image_start : image_start + int(np.prod(shape))].reshape(shape)
        read = text_at[text_start : text_start + int(np.prod(other))].reshape(other)
        image_start, text_start = image_start + seen.size, text_start + read.size
        seats.append((seen, read))
    if score == "itc":
        tables = embed_distinct(asking, images.refs, images.ids, captions)
        each = [_cosine_scores(*tables, seen, read) for seen, read in seats]
        counts = _count_new_encodings(seats, len(images.refs), len(captions))
    else:
        pairs = [_cell_pairs(seen, read) for seen, read in seats]
        plan = plan_cells(images.refs, captions, np.concatenate(pairs))
        found = score_pairs(asking, score, plan)[plan.places]
        ends = np.cumsum([len(some) for some in pairs])
        each = [
            part.reshape(len(seen), seen.shape[1], read.shape[1], seen.shape[2], read.shape[2])
            for part, (seen, read) in zip(np.split(found, ends[:-1]), seats, strict=True)
        ]
        counts = _count_new_pairs([plan.places[end - len(some) : end]
                             for end, some in zip(ends.tolist(), pairs, strict=True)],
                            len(plan.pairs))  # fmt: skip
    cells = []
    for values, (seen, read), count in zip(each, seats, counts, strict=True):
        skipped = {
            k: _skip_reason(asking, score, values[k], seen[k], read[k], images.ids, ids)
            for k in np.flatnonzero(np.isnan(values).any(axis=(1, 2, 3, 4))).tolist()
        }
        separate = score == "itc"
        cells.append(
            BlockScores(
                values=values,
                skipped=skipped,
                encodings=count if separate else 0,
                pairs=0 if separate else count,
                naive=values.size * (2 if separate else 1),
            )
        )
    return cells


def _cosine_scores(
    images: FloatArray, texts: FloatArray, seen: IntArray, read: IntArray
) -> FloatArray:
    """(k, m, n, 2**a, 2**b) cosines in float64, the largest where an image has several vectors.

    Args:
        images: (·, q · d) vectors; NaN where there is none.
        texts: (·, d) likewise.
        seen: (k, m, 2**a) positions of images.
        read: (k, n, 2**b) positions of captions.
    """
    games, m, a = seen.shape
    _, n, b = read.shape
    found = np.full((games, m, n, a, b), np.nan)
    if not images.size or not texts.size:
        return found
    width = texts.shape[1]
    several = images.shape[1] // width
    step = max(1, MAX_CELLS // (m * a * several * max(width, n * b)))
    for start in range(0, games, step):
        some = slice(start, start + step)
        left = images[seen[some]].astype(np.float64).reshape(-1, m * a * several, width)
        right = texts[read[some]].astype(np.float64).reshape(-1, n * b, width)
        product = left @ right.transpose(0, 2, 1)
        largest = product.reshape(-1, m, a, several, n, b).max(axis=3)
        found[some] = largest.transpose(0, 1, 3, 2, 4)
    return found


def _cell_pairs(seen: IntArray, read: IntArray) -> IntArray:
    """(k · m · n · 2**a · 2**b, 2) image and caption of every cell."""
    image = seen[:, :, None, :, None]
    text = read[:, None, :, None, :]
    both = np.broadcast_arrays(image, text)
    return np.stack([each.reshape(-1) for each in both], axis=1)


def _count_new_encodings(
    seats: Sequence[tuple[IntArray, IntArray]], images: int, captions: int
) -> list[int]:
    """Count, per block, the images and captions that no earlier block has."""
    known = np.zeros(images + captions, dtype=np.bool_)
    found = []
    for seen, read in seats:
        before = int(known.sum())
        known[seen] = True
        known[images + read] = True
        found.append(int(known.sum()) - before)
    return found


def _count_new_pairs(places: Sequence[IntArray], count: int) -> list[int]:
    known = np.zeros(count, dtype=np.bool_)
    found = []
    for some in places:
        before = int(known.sum())
        known[some] = True
        found.append(int(known.sum()) - before)
    return found


def _skip_reason(
    asking: ScoringContext,
    score: str,
    values: FloatArray,
    seen: IntArray,
    read: IntArray,
    image_ids: Sequence[str],
    text_ids: Sequence[str],
) -> Skip:
    """Reason why a game has a cell without a score."""
    i, j, s, t = np.argwhere(np.isnan(values))[0].tolist()
    return (
        asking.skips.why(score, image_ids[int(seen[i, s])], text_ids[int(read[j, t])])
        or UNKNOWN_SKIP
    )


GameSide = Literal["text", "image", "mutual", "all"]
SIDES: dict[GameSide, str] = {
    "text": "the words of two captions play, all of the image is there",
    "image": "the regions of two images play, all of the caption is there",
    "mutual": "words and regions play together",
    "all": "all three",
}
GAME_SCORES = ("itc", "itm", "lm", "vqa")
"""Scores of an image with a caption: what a game can be about."""


def play_games(
    asking: ScoringContext,
    score: str,
    examples: Sequence[Example],
    words: WordFinder | None,
    regions: RegionFinder | None,
    *,
    side: GameSide = "all",
    baseline: Baseline | None = None,
) -> list[GameBlock]:
    """Play the games of examples: one block per combination of players and shape.

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
    if score not in GAME_SCORES:
        raise InputError(
            f"{score!r} is no score of an image with a caption; {', '.join(GAME_SCORES)} are."
        )
    if side != "image":
        require_text_mask(asking.model, how.text, score)
    _require_players(words, regions, side)
    if len({example.id for example in examples}) < len(examples):
        raise InputError("two examples have the same id; diagnose one benchmark at a time.")
    readable, names, left = _split_readable(asking, examples)
    filling, _ = choose_fill(asking.model, how)
    games, unplayed = plan_games(
        readable,
        names,
        None if side == "image" else words,
        None if side == "text" else regions,
        how,
        filling,
    )
    left += unplayed
    _require_games(games, left)
    blocks = _group_games(games)
    played = []
    for block, cells in zip(blocks, score_blocks(asking, score, blocks), strict=True):
        left += [UnplayedExample(block[k].id, skip.detail) for k, skip in cells.skipped.items()]
        played.append(_build_block(block, cells))
    _require_games([id_ for block in played for id_ in block.ids], left)
    return [replace(played[0], left_out=tuple(left)), *played[1:]]


def _require_players(
    words: WordFinder | None, regions: RegionFinder | None, side: GameSide
) -> None:
    if side not in SIDES:
        raise InputError(f"there is no side {side!r}; there are {', '.join(SIDES)}.")
    if side != "image" and words is None:
        raise InputError(f"side {side} needs word groups.")
    if side != "text" and regions is None:
        raise InputError(
            f"side {side} needs regions, and these images have none: pass --regions FILE, "
            "--players superpixels, or --side text."
        )


def _split_readable(
    asking: ScoringContext, examples: Sequence[Example]
) -> tuple[list[Example], list[list[str]], list[UnplayedExample]]:
    """Split examples into readable ones (with content ids of their images) and unreadable ones."""
    images = distinct_images([ref for example in examples for ref in example.images])
    asking.skips.images.update(images.lost)
    kept: list[Example] = []
    names: list[list[str]] = []
    left: list[UnplayedExample] = []
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
            left.append(UnplayedExample(example.id, lost.detail))
    return kept, names, left


def _require_games(games: Sequence[object], left: Sequence[UnplayedExample]) -> None:
    """Raise `InputError` with the most common reason if there is nothing to play."""
    if games:
        return
    if not left:
        raise InputError("there are no examples to diagnose.")
    reason, count = Counter(each.reason for each in left).most_common(1)[0]
    raise InputError(
        f"none of {len(left):,} examples can be played ({reason}: {count:,}); give word groups "
        "with --groups FILE, or regions with --regions FILE."
    )


def _group_games(games: Sequence[Game]) -> list[list[Game]]:
    """Group games by kind, in order of first appearance."""
    blocks: dict[object, list[Game]] = {}
    for game in games:
        blocks.setdefault(game.kind, []).append(game)
    return list(blocks.values())


def _build_block(games: Sequence[Game], cells: BlockScores) -> GameBlock:
    """Build the block of the games that have all their scores."""
    keep = [k for k in range(len(games)) if k not in cells.skipped]
    image_players, text_players, m, n = games[0].kind
    match = np.array([games[k].match for k in keep], dtype=np.bool_).reshape(len(keep), m, n)
    return GameBlock(
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
