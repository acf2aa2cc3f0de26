"""How long captions are for a model, and what becomes of those that are too long.

Token counts are kept in the store beside the answers, so that a second run need not tokenise. A
caption that is cut gets another content id: its answer is never taken for one of the whole caption.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.data import text_id
from contrapose.metrics import IntArray
from contrapose.models import Reads
from contrapose.models.masks import caption_of
from contrapose.scoring.asking import Asking
from contrapose.scoring.skips import Skip

TOKENS = "tokens"
"""The shelf of token counts."""

COUNT_AT_ONCE = 4096


def lengths_of(asking: Asking, texts: Sequence[str]) -> IntArray:
    """Tokens of each caption where the model counts them, else words."""
    model = asking.model
    if not isinstance(model, Reads):
        return np.array([len(text.split()) for text in texts], dtype=np.int64)
    shelf = asking.store.shelf(model.fingerprint, TOKENS)
    ids, pairs = [text_id(text) for text in texts], only_texts(len(texts))
    missing = np.flatnonzero(shelf.find(("",), ids, pairs) < 0).tolist()
    counts: list[int] = []
    for start in range(0, len(missing), COUNT_AT_ONCE):
        # Blank captions are refused elsewhere, and not every tokeniser takes them.
        some = [
            texts[i] if texts[i].strip() else "." for i in missing[start : start + COUNT_AT_ONCE]
        ]
        counts += map(int, model.token_counts(some))
    if missing:
        shelf.add(
            [""] * len(missing), [ids[i] for i in missing], {"value": np.array(counts, np.float64)}
        )
    return shelf.values(shelf.find(("",), ids, pairs)).astype(np.int64)


def cut_captions(asking: Asking, texts: Sequence[str]) -> list[int]:
    """Positions of the captions that the model cuts, as the user asked."""
    model = asking.model
    if not isinstance(model, Reads) or not model.cuts:
        return []
    return np.flatnonzero(lengths_of(asking, texts) > model.context).tolist()


def cut_note(asking: Asking, texts: Sequence[str]) -> tuple[str, ...]:
    """What the reader of results should know of cut captions, of which each counts once."""
    model = asking.model
    if not isinstance(model, Reads) or not model.cuts:
        return ()
    distinct = list(dict.fromkeys(texts))
    cut = len(cut_captions(asking, distinct))
    if not cut:
        return ()
    were = "were" if cut > 1 else "was"
    return (f"{cut:,} of {len(distinct):,} captions {were} cut to {model.context} tokens",)


def caption_ids(asking: Asking, texts: Sequence[str], ids: Sequence[str]) -> Sequence[str]:
    """The captions' ids in the store: those that are cut have others."""
    cut = cut_captions(asking, texts)
    if not cut or not isinstance(asking.model, Reads):
        return ids
    named = list(ids)
    for i in cut:
        named[i] = text_id(f"{texts[i]}\0cut to {asking.model.context}")
    return named


def unread(asking: Asking, texts: Sequence[str], lengths: IntArray) -> dict[int, Skip]:
    """Captions that cannot be asked: empty, or longer than the model reads and not to be cut."""
    found = {
        i: Skip("the caption is empty", "a caption is empty")
        for i, text in enumerate(texts)
        if not text.strip()
    }
    model = asking.model
    if isinstance(model, Reads) and not model.cuts:
        for i in np.flatnonzero(lengths > model.context).tolist():
            found.setdefault(
                i,
                Skip(
                    "the caption is longer than the model reads",
                    f"the caption {caption_of(texts[i])[:40]!r}… has {lengths[i]:,} tokens; "
                    f"{model.name} reads {model.context} (--long cut cuts it)",
                ),
            )
    return found


def only_texts(count: int) -> IntArray:
    """Pairs of the first image, or none, with each of so many captions."""
    return np.stack([np.zeros(count, dtype=np.int64), np.arange(count)], axis=1)
