"""Games played with a model: its score for every coalition of words and regions.

A dual encoder's game separates: each masked image and each masked caption is encoded once, and all
scores are one matrix product. For other models every pair is planned through the scoring engine.
Both go to the store as any score does, and the full coalition is the plain score itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from contrapose.arrays import find_distinct
from contrapose.data import Example
from contrapose.diagnose.game_blocks import GameBlock, UnplayedExample
from contrapose.diagnose.planning import Baseline, Game, choose_fill, plan_games
from contrapose.diagnose.players import GameSide, RegionFinder, WordFinder
from contrapose.engine import (
    ScoringContext,
    compute_caption_ids,
    default_scores,
    distinct_images,
    embed_distinct,
    plan_cells,
    require_score,
    score_pairs,
)
from contrapose.engine.embeddings import MAX_CELLS
from contrapose.errors import InputError, option
from contrapose.metrics import FloatArray, IntArray
from contrapose.models import Model
from contrapose.models.masking.text import require_text_mask
from contrapose.scores import UNKNOWN_SKIP, Skip


@dataclass(frozen=True, slots=True, eq=False)
class BlockScores:
    """Scores of a block of games, and their cost.

    Attributes:
        values: (k, m, n, 2**a, 2**b) scores; NaN where there is none.
        skipped: reason per game that has a cell without a score.
        encodings: images and captions encoded for these games and for none before them.
        pairs: pairs scored for these games and for none before them.
        naive: encodings (or pairs) that scoring every cell anew would have taken.
    """

    values: FloatArray
    skipped: dict[int, Skip]
    encodings: int
    pairs: int
    naive: int


def score_blocks(
    context: ScoringContext, score: str, blocks: Sequence[Sequence[Game]]
) -> list[BlockScores]:
    """Score the cells of all blocks in one pass.

    Args:
        context: model, store and options.
        score: `itc` separates; the other scores need every pair.
        blocks: games of one kind each.
    """
    refs = [ref for block in blocks for game in block for row in game.images for ref in row]
    texts = [text for block in blocks for game in block for row in game.texts for text in row]
    images = distinct_images(refs, context.content_id_reader())
    context.skips.images.update(images.unreadable)
    captions, text_at = find_distinct(texts)
    ids = compute_caption_ids(context, captions)
    positions, image_start, text_start = [], 0, 0
    for block in blocks:
        image_players, text_players, m, n = block[0].kind
        shape = len(block), m, 1 << len(image_players)
        other = len(block), n, 1 << len(text_players)
        image_at = images.index[image_start : image_start + int(np.prod(shape))].reshape(shape)
        caption_at = text_at[text_start : text_start + int(np.prod(other))].reshape(other)
        image_start, text_start = image_start + image_at.size, text_start + caption_at.size
        positions.append((image_at, caption_at))
    if score == "itc":
        tables = embed_distinct(context, images.refs, images.ids, captions)
        scores = [_cosine_scores(*tables, *at) for at in positions]
        offset = len(images.refs)
        used = [np.union1d(image_at, offset + text_at) for image_at, text_at in positions]
        counts = _count_new(used, offset + len(captions))
    else:
        pairs = [_cell_pairs(*at) for at in positions]
        plan = plan_cells(images.refs, captions, np.concatenate(pairs), context.content_id_reader())
        values = score_pairs(context, score, plan)[plan.pair_index]
        ends = np.cumsum([len(some) for some in pairs])[:-1]
        scores = [
            part.reshape(len(i), i.shape[1], j.shape[1], i.shape[2], j.shape[2])
            for part, (i, j) in zip(np.split(values, ends), positions, strict=True)
        ]
        counts = _count_new(np.split(plan.pair_index, ends), len(plan.pairs))
    return [
        BlockScores(
            values=values,
            skipped={
                k: _skip_reason(context, score, values[k], image_at[k], text_at[k], images.ids, ids)
                for k in np.flatnonzero(np.isnan(values).any(axis=(1, 2, 3, 4))).tolist()
            },
            encodings=count if score == "itc" else 0,
            pairs=0 if score == "itc" else count,
            naive=values.size * (2 if score == "itc" else 1),
        )
        for values, (image_at, text_at), count in zip(scores, positions, counts, strict=True)
    ]


def _cosine_scores(
    images: FloatArray, texts: FloatArray, image_at: IntArray, text_at: IntArray
) -> FloatArray:
    """(k, m, n, 2**a, 2**b) cosines in float64, the largest where an image has several vectors.

    Args:
        images: (·, q · d) image vectors; NaN where there is none.
        texts: (·, d) caption vectors; NaN where there is none.
        image_at: (k, m, 2**a) rows of `images`.
        text_at: (k, n, 2**b) rows of `texts`.
    """
    games, m, a = image_at.shape
    _, n, b = text_at.shape
    scores = np.full((games, m, n, a, b), np.nan)
    if not images.size or not texts.size:
        return scores
    width = texts.shape[1]
    several = images.shape[1] // width
    step = max(1, MAX_CELLS // (m * a * several * max(width, n * b)))
    for start in range(0, games, step):
        some = slice(start, start + step)
        left = images[image_at[some]].astype(np.float64).reshape(-1, m * a * several, width)
        right = texts[text_at[some]].astype(np.float64).reshape(-1, n * b, width)
        product = left @ right.transpose(0, 2, 1)
        largest = product.reshape(-1, m, a, several, n, b).max(axis=3)
        scores[some] = largest.transpose(0, 1, 3, 2, 4)
    return scores


def _cell_pairs(image_at: IntArray, text_at: IntArray) -> IntArray:
    """(k · m · n · 2**a · 2**b, 2) image and caption of every cell."""
    both = np.broadcast_arrays(image_at[:, :, None, :, None], text_at[:, None, :, None, :])
    return np.stack([positions.reshape(-1) for positions in both], axis=1)


def _count_new(used: Sequence[IntArray], count: int) -> list[int]:
    """Count, per block, the items (of `count`) that it uses and no earlier block has used."""
    known = np.zeros(count, dtype=np.bool_)
    totals = [0]
    for items in used:
        known[items] = True
        totals.append(int(known.sum()))
    return np.diff(totals).tolist()


def _skip_reason(
    context: ScoringContext,
    score: str,
    values: FloatArray,
    image_at: IntArray,
    text_at: IntArray,
    image_ids: Sequence[str],
    text_ids: Sequence[str],
) -> Skip:
    """Reason why a game has a cell without a score."""
    i, j, s, t = np.argwhere(np.isnan(values))[0].tolist()
    return (
        context.skips.why(score, image_ids[int(image_at[i, s])], text_ids[int(text_at[j, t])])
        or UNKNOWN_SKIP
    )


SIDES: dict[GameSide, str] = {
    "text": "the words of two captions play, all of the image is there",
    "image": "the regions of two images play, all of the caption is there",
    "mutual": "words and regions play together",
    "all": "all three",
}
GAME_SCORES = ("itc", "itm", "lm", "vqa")
"""Scores of an image with a caption, which games can be played with."""


def choose_score(model: Model, score: str | None) -> str:
    """Choose the score of a game: the one named, or the model's first that has games.

    Raises:
        InputError: the model gives none.
    """
    if score is not None:
        return score
    scores = [name for name in default_scores(model) if name in GAME_SCORES]
    if not scores:
        raise InputError(f"{model.name} gives no score of an image with a caption.")
    return scores[0]


def play_games(
    context: ScoringContext,
    score: str,
    examples: Sequence[Example],
    words: WordFinder | None,
    regions: RegionFinder | None,
    *,
    side: GameSide = "all",
    baseline: Baseline | None = None,
) -> list[GameBlock]:
    """Play the games of examples: one block per combination of players and shape.

    Every cell of a block is scored. The text side alone has no image players: the complete image is
    the only coalition; the image side alone has no text players. Examples that could not be played
    stand in the first block's `left_out`.

    Args:
        context: model, store and options.
        score: `itc`, `itm`, `lm` or `vqa`.
        examples: m images × n captions each; ids are unique.
        words: finder of word groups; needed except on the image side.
        regions: finder of regions; needed except on the text side.
        side: the players that take part.
        baseline: replacement for absent players; None takes zeros.

    Raises:
        InputError: the model cannot give the score or hide words so, there are no players or too
            many, or no example can be played.
    """
    baseline = baseline or Baseline()
    require_score(context.model, score)
    if score not in GAME_SCORES:
        raise InputError(
            f"{score!r} is no score of an image with a caption; {', '.join(GAME_SCORES)} are."
        )
    if side != "image":
        require_text_mask(context.model, baseline.text, score)
    _require_players(words, regions, side)
    if len({example.id for example in examples}) < len(examples):
        raise InputError("two examples have the same id; diagnose one benchmark at a time.")
    readable, names, unplayed = _split_readable(context, examples)
    filling, _ = choose_fill(context.model, baseline)
    games, playerless = plan_games(
        readable,
        names,
        None if side == "image" else words,
        None if side == "text" else regions,
        baseline,
        filling,
    )
    unplayed += playerless
    _require_games(games, unplayed)
    groups = _group_games(games)
    blocks = []
    for group, cells in zip(groups, score_blocks(context, score, groups), strict=True):
        unplayed += [UnplayedExample(group[k].id, skip.detail) for k, skip in cells.skipped.items()]
        blocks.append(_build_block(group, cells))
    _require_games([id_ for block in blocks for id_ in block.ids], unplayed)
    return [replace(blocks[0], left_out=tuple(unplayed)), *blocks[1:]]


def _require_players(
    words: WordFinder | None, regions: RegionFinder | None, side: GameSide
) -> None:
    if side not in SIDES:
        raise InputError(f"there is no side {side!r}; there are {', '.join(SIDES)}.")
    if side != "image" and words is None:
        raise InputError(f"side {side} needs word groups.")
    if side != "text" and regions is None:
        raise InputError(
            f"side {side} needs regions, and these images have none: pass "
            f"{option('regions', 'FILE')}, {option('players', 'superpixels')}, or "
            f"{option('side', 'text')}."
        )


def _split_readable(
    context: ScoringContext, examples: Sequence[Example]
) -> tuple[list[Example], list[list[str]], list[UnplayedExample]]:
    """Split examples into readable ones (with content ids of their images) and unreadable ones."""
    refs = [ref for example in examples for ref in example.images]
    images = distinct_images(refs, context.content_id_reader())
    context.skips.images.update(images.unreadable)
    readable: list[Example] = []
    names: list[list[str]] = []
    unplayed: list[UnplayedExample] = []
    start = 0
    for example in examples:
        end = start + len(example.images)
        ids = [images.ids[i] for i in images.index[start:end].tolist()]
        start = end
        lost = next((images.unreadable[id_] for id_ in ids if id_ in images.unreadable), None)
        if lost is None:
            readable.append(example)
            names.append(ids)
        else:
            unplayed.append(UnplayedExample(example.id, lost.detail))
    return readable, names, unplayed


def _require_games(games: Sequence[object], unplayed: Sequence[UnplayedExample]) -> None:
    """Raise `InputError` with the most common reason if there is nothing to play."""
    if games:
        return
    if not unplayed:
        raise InputError("there are no examples to diagnose.")
    reason, count = Counter(example.reason for example in unplayed).most_common(1)[0]
    raise InputError(
        f"none of {len(unplayed):,} examples can be played ({reason}: {count:,}); give word groups "
        f"with {option('groups', 'FILE')}, or regions with {option('regions', 'FILE')}."
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
        has_regions=np.array([games[k].has_regions for k in keep], dtype=np.bool_).reshape(
            len(keep), m, len(image_players)
        ),
        has_words=np.array([games[k].has_words for k in keep], dtype=np.bool_).reshape(
            len(keep), n, len(text_players)
        ),
        encodings=cells.encodings,
        pairs=cells.pairs,
        naive=cells.naive,
    )
