"""Hard negatives by word order: the four shuffles of ARO, in the caption's own case and marks.

ARO writes them in lower case without a full stop, which alone would tell them from the caption.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import numpy as np

from contrapose.build.captions.change import Rewrite, difference
from contrapose.build.captions.sentence import Sentence
from contrapose.data.shuffles import (
    all_but_nouns_and_adjectives,
    nouns_and_adjectives,
    trigrams,
    within_trigrams,
)
from contrapose.data.tagging import join

END = re.compile(r"\s*[.!?]*\s*$")
KINDS = ("order-nouns-adjectives", "order-others", "order-within-trigrams", "order-trigrams")


def shuffles(sentence: Sentence, seed: int) -> Iterator[Rewrite]:
    """The caption's words in four other orders; those that cannot be changed are left out."""
    end = END.search(sentence.caption)
    stop = len(sentence.caption) if end is None else end.start()
    tokens = [token for token in sentence.tokens if token.start < stop]
    if len(tokens) < 2:
        return
    capital = tokens[0].text[0].isupper() and not (
        tokens[0].text.isupper() and len(tokens[0].text) > 1
    )
    texts = [token.text for token in tokens]
    if capital:
        texts[0] = texts[0][0].lower() + texts[0][1:]
    tagged = [(text, token.tag) for text, token in zip(texts, tokens, strict=True)]
    digest = hashlib.blake2b(sentence.caption.encode(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    orders = (
        nouns_and_adjectives(tagged, rng),
        all_but_nouns_and_adjectives(tagged, rng),
        within_trigrams(texts, rng),
        trigrams(texts, rng),
    )
    for kind, words in zip(KINDS, orders, strict=True):
        if words != texts:
            text = join(words)
            text = text[0].upper() + text[1:] if capital else text
            yield difference(sentence.caption, text + sentence.caption[stop:], kind)
