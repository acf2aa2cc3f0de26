"""Pairs to learn from: hard positives and hard negatives of any caption, each with what changed.

from contrapose.build.captions import Captioned, Recipe, make_pairs

for pairs in make_pairs([Captioned("a red cube and a blue ball")], Recipe(seed=0)):
    print(pairs.positives, pairs.negatives)
"""

from contrapose.build.captions.change import Change, Rewrite, applied
from contrapose.build.captions.conjunction import swapped
from contrapose.build.captions.kinds import ALL, GROUPS, NEGATIVE, POSITIVE, REWRITTEN, parse_kinds
from contrapose.build.captions.make import Pairs, Recipe, Tally, make_pairs
from contrapose.build.captions.read import Captioned, read_captions
from contrapose.build.captions.replace import replacement_beside, replacements
from contrapose.build.captions.rewriter import Rewriter, load_rewriter
from contrapose.build.captions.sentence import Sentence, parse
from contrapose.build.captions.write import build_pairs, places_of

__all__ = [
    "ALL",
    "GROUPS",
    "NEGATIVE",
    "POSITIVE",
    "REWRITTEN",
    "Captioned",
    "Change",
    "Pairs",
    "Recipe",
    "Rewrite",
    "Rewriter",
    "Sentence",
    "Tally",
    "applied",
    "build_pairs",
    "load_rewriter",
    "make_pairs",
    "parse",
    "parse_kinds",
    "places_of",
    "read_captions",
    "replacement_beside",
    "replacements",
    "swapped",
]
