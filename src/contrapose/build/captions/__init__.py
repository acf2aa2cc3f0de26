"""Hard positives and hard negatives of any caption, each labeled with its changes.

from contrapose.build.captions import CaptionRecord, Recipe, make_pairs

for pairs in make_pairs([CaptionRecord("a red cube and a blue ball")], Recipe(seed=0)):
    print(pairs.positives, pairs.negatives)
"""

from contrapose.build.captions.balance import BlindTest, audit_pairs, balance_pairs
from contrapose.build.captions.conjunction import swap_conjuncts
from contrapose.build.captions.edits import Change, Rewrite, apply_changes
from contrapose.build.captions.files import read_captions
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
from contrapose.build.captions.writer import PairBuild, build_pairs, pair_files, plan_pairs

__all__ = [
    "ALL",
    "GROUPS",
    "NEGATIVE",
    "POSITIVE",
    "REWRITTEN",
    "BlindTest",
    "CaptionPairs",
    "CaptionRecord",
    "Change",
    "PairBuild",
    "Recipe",
    "Rewrite",
    "Rewriter",
    "Sentence",
    "Tally",
    "apply_changes",
    "audit_pairs",
    "balance_pairs",
    "build_pairs",
    "load_rewriter",
    "make_pairs",
    "pair_files",
    "parse_kinds",
    "parse_sentence",
    "plan_pairs",
    "read_captions",
    "replacement_for_negative",
    "replacements",
    "swap_conjuncts",
]
