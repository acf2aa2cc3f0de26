"""Hard positives and hard negatives of any caption, each labeled with its changes.

from contrapose.build.captions import CaptionRecord, Recipe, make_pairs

for pairs in make_pairs([CaptionRecord("a red cube and a blue ball")], Recipe(seed=0)):
    print(pairs.positives, pairs.negatives)
"""

from contrapose.build.captions.conjunction import swap_conjuncts
from contrapose.build.captions.edits import Change, Rewrite, apply_changes
from contrapose.build.captions.files import build_pairs, pair_files, read_captions
from contrapose.build.captions.pairs import (
    ALL,
    GROUPS,
    NEGATIVE,
    POSITIVE,
    REWRITTEN,
    CaptionPairs,
    CaptionRecord,
    Recipe,
    Tally,
    make_pairs,
    parse_kinds,
)
from contrapose.build.captions.replacements import replacement_for_negative, replacements
from contrapose.build.captions.rewriter import Rewriter, load_rewriter
from contrapose.build.captions.sentence import Sentence, parse_sentence

__all__ = [
    "ALL",
    "GROUPS",
    "NEGATIVE",
    "POSITIVE",
    "REWRITTEN",
    "CaptionPairs",
    "CaptionRecord",
    "Change",
    "Recipe",
    "Rewrite",
    "Rewriter",
    "Sentence",
    "Tally",
    "apply_changes",
    "build_pairs",
    "load_rewriter",
    "make_pairs",
    "pair_files",
    "parse_kinds",
    "parse_sentence",
    "read_captions",
    "replacement_for_negative",
    "replacements",
    "swap_conjuncts",
]
