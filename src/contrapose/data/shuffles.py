"""ARO's four word-order shuffles of a caption.

Each is drawn again until the order differs from the caption's; a caption that cannot be changed so
(it has one noun, say) comes back as it is.

Each is drawn again until the order differs from the caption's; a caption that cannot be changed
so (it has one noun, say) comes back as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from contrapose.data.tagging import TaggedTokens, Tagger, join_words, tag_words

SEED = 1
MAX_WORDS = 30
REMOVED_PUNCTUATION = re.compile(r'[.!"()*#:;~]')


def clean_caption(caption: str) -> str:
    """Clean a caption as ARO does: lower case, no sentence punctuation, thirty words."""
    return " ".join(REMOVED_PUNCTUATION.sub(" ", caption.lower()).split()[:MAX_WORDS])


def shuffle_caption(
    caption: str, tagger: Tagger = "textblob", seed: int = SEED
) -> tuple[str, str, str, str, str]:
    """Return the cleaned caption and its four shuffles, in the order of the functions below.

    The draw depends on the seed and on the caption's own text, on nothing else.
    """
    tagged = tag_words(clean_caption(caption), tagger)
    words = [word for word, _ in tagged]
    text = join_words(words)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    return (
        text,
        join_words(shuffle_nouns_and_adjectives(tagged, rng)),
        join_words(shuffle_other_words(tagged, rng)),
        join_words(shuffle_within_trigrams(words, rng)),
        join_words(shuffle_trigrams(words, rng)),
    )


def shuffle_nouns_and_adjectives(tagged: TaggedTokens, rng: np.random.Generator) -> list[str]:
    """Permute nouns among nouns, and adjectives among adjectives."""
    groups = [
        [i for i, (_, penn) in enumerate(tagged) if penn.startswith(start)]
        for start in ("NN", "JJ")
    ]
    return _permute_groups([word for word, _ in tagged], groups, rng)


def shuffle_other_words(tagged: TaggedTokens, rng: np.random.Generator) -> list[str]:
    """Permute the words that are neither nouns nor adjectives."""
    others = [i for i, (_, penn) in enumerate(tagged) if not penn.startswith(("NN", "JJ"))]
    return _permute_groups([word for word, _ in tagged], [others], rng)


def shuffle_within_trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Permute the words within each run of three."""
    groups = [list(range(i, min(i + 3, len(words)))) for i in range(0, len(words), 3)]
    return _permute_groups(words, groups, rng)


def shuffle_trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Permute the runs of three, keeping the order within each."""
    original = list(words)
    runs = [original[i : i + 3] for i in range(0, len(original), 3)]
    # All orders read the same exactly when every run commutes with the first one.
    if all(runs[0] + run == run + runs[0] for run in runs):
        return original
    while True:
        result = [word for i in rng.permutation(len(runs)) for word in runs[i]]
        if result != original:
            return result


def _permute_groups(
    words: Sequence[str], groups: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[str]:
    """Permute words within each group of positions."""
    original = list(words)
    if all(len({original[i] for i in group}) < 2 for group in groups):
        return original
    while True:
        result = list(original)
        for group in groups:
            for place, i in zip(group, rng.permutation(len(group)), strict=True):
                result[place] = original[group[i]]
        if result != original:
            return result
