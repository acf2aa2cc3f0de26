"""ARO's four shuffles of a caption: the same words in an order that no longer fits.

Each is drawn again until the order differs from the caption's; a caption that cannot be changed
so (it has one noun, say) comes back as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from contrapose.data.tagging import Tagged, Tagger, join, tag

SEED = 1
MAX_WORDS = 30
REMOVED = re.compile(r'[.!"()*#:;~]')


def cleaned(caption: str) -> str:
    """A caption as ARO shows it: lower case, without sentence punctuation, thirty words."""
    return " ".join(REMOVED.sub(" ", caption.lower()).split()[:MAX_WORDS])


def shuffled_captions(
    caption: str, tagger: Tagger = "textblob", seed: int = SEED
) -> tuple[str, str, str, str, str]:
    """The cleaned caption and its four shuffles, in the order of the functions below.

    The draw depends on the seed and on the caption's own text, on nothing else.
    """
    tagged = tag(cleaned(caption), tagger)
    words = [word for word, _ in tagged]
    text = join(words)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    return (
        text,
        join(nouns_and_adjectives(tagged, rng)),
        join(all_but_nouns_and_adjectives(tagged, rng)),
        join(within_trigrams(words, rng)),
        join(trigrams(words, rng)),
    )


def nouns_and_adjectives(tagged: Tagged, rng: np.random.Generator) -> list[str]:
    """Nouns change places with nouns, adjectives with adjectives."""
    groups = [
        [i for i, (_, penn) in enumerate(tagged) if penn.startswith(start)]
        for start in ("NN", "JJ")
    ]
    return _permuted([word for word, _ in tagged], groups, rng)


def all_but_nouns_and_adjectives(tagged: Tagged, rng: np.random.Generator) -> list[str]:
    """Every word that is neither noun nor adjective changes place with others of its kind."""
    others = [i for i, (_, penn) in enumerate(tagged) if not penn.startswith(("NN", "JJ"))]
    return _permuted([word for word, _ in tagged], [others], rng)


def within_trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The words of each run of three change places with each other."""
    groups = [list(range(i, min(i + 3, len(words)))) for i in range(0, len(words), 3)]
    return _permuted(words, groups, rng)


def trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The runs of three change places, the order within each is kept."""
    original = list(words)
    runs = [original[i : i + 3] for i in range(0, len(original), 3)]
    # All orders read the same exactly when every run commutes with the first one.
    if all(runs[0] + run == run + runs[0] for run in runs):
        return original
    while True:
        result = [word for i in rng.permutation(len(runs)) for word in runs[i]]
        if result != original:
            return result


def _permuted(
    words: Sequence[str], groups: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[str]:
    """Words permuted within each group of positions."""
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
