"""The scores of games' cells: one product of vectors, or pairs through the scoring engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.planning import Game
from contrapose.metrics import FloatArray, IntArray
from contrapose.scoring.ask import vectors
from contrapose.scoring.asking import Asking
from contrapose.scoring.cosines import CELLS
from contrapose.scoring.lengths import caption_ids
from contrapose.scoring.plan import distinct_images, distinct_texts, plan_cells, text_ids_of
from contrapose.scoring.skips import UNKNOWN, Skip
from contrapose.scoring.values import pair_values


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The scores of a block of games, and what they took.

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


def block_cells(asking: Asking, score: str, blocks: Sequence[Sequence[Game]]) -> list[Cells]:
    """The cells of all blocks, asked in one go.

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
    ids = caption_ids(asking, captions, text_ids_of(captions))
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
        tables = vectors(asking, images.refs, images.ids, captions)
        each = [_products(*tables, seen, read) for seen, read in seats]
        counts = _new_encodings(seats, len(images.refs), len(captions))
    else:
        pairs = [_pairs(seen, read) for seen, read in seats]
        plan = plan_cells(images.refs, captions, np.concatenate(pairs))
        found = pair_values(asking, score, plan)[plan.places]
        ends = np.cumsum([len(some) for some in pairs])
        each = [
            part.reshape(len(seen), seen.shape[1], read.shape[1], seen.shape[2], read.shape[2])
            for part, (seen, read) in zip(np.split(found, ends[:-1]), seats, strict=True)
        ]
        counts = _new_pairs([plan.places[end - len(some) : end]
                             for end, some in zip(ends.tolist(), pairs, strict=True)],
                            len(plan.pairs))  # fmt: skip
    cells = []
    for values, (seen, read), count in zip(each, seats, counts, strict=True):
        skipped = {
            k: _why(asking, score, values[k], seen[k], read[k], images.ids, ids)
            for k in np.flatnonzero(np.isnan(values).any(axis=(1, 2, 3, 4))).tolist()
        }
        separate = score == "itc"
        cells.append(
            Cells(
                values=values,
                skipped=skipped,
                encodings=count if separate else 0,
                pairs=0 if separate else count,
                naive=values.size * (2 if separate else 1),
            )
        )
    return cells


def _products(images: FloatArray, texts: FloatArray, seen: IntArray, read: IntArray) -> FloatArray:
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
    step = max(1, CELLS // (m * a * several * max(width, n * b)))
    for start in range(0, games, step):
        some = slice(start, start + step)
        left = images[seen[some]].astype(np.float64).reshape(-1, m * a * several, width)
        right = texts[read[some]].astype(np.float64).reshape(-1, n * b, width)
        product = left @ right.transpose(0, 2, 1)
        largest = product.reshape(-1, m, a, several, n, b).max(axis=3)
        found[some] = largest.transpose(0, 1, 3, 2, 4)
    return found


def _pairs(seen: IntArray, read: IntArray) -> IntArray:
    """(k · m · n · 2**a · 2**b, 2) image and caption of every cell."""
    image = seen[:, :, None, :, None]
    text = read[:, None, :, None, :]
    both = np.broadcast_arrays(image, text)
    return np.stack([each.reshape(-1) for each in both], axis=1)


def _new_encodings(
    seats: Sequence[tuple[IntArray, IntArray]], images: int, captions: int
) -> list[int]:
    """For each block how many images and captions no block before it has."""
    known = np.zeros(images + captions, dtype=np.bool_)
    found = []
    for seen, read in seats:
        before = int(known.sum())
        known[seen] = True
        known[images + read] = True
        found.append(int(known.sum()) - before)
    return found


def _new_pairs(places: Sequence[IntArray], count: int) -> list[int]:
    known = np.zeros(count, dtype=np.bool_)
    found = []
    for some in places:
        before = int(known.sum())
        known[some] = True
        found.append(int(known.sum()) - before)
    return found


def _why(
    asking: Asking,
    score: str,
    values: FloatArray,
    seen: IntArray,
    read: IntArray,
    image_ids: Sequence[str],
    text_ids: Sequence[str],
) -> Skip:
    """Why a game has a cell without an answer."""
    i, j, s, t = np.argwhere(np.isnan(values))[0].tolist()
    return asking.skips.why(score, image_ids[int(seen[i, s])], text_ids[int(read[j, t])]) or UNKNOWN
