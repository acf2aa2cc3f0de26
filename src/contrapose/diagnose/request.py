"""What a diagnosis is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contrapose.data.tagging import Tagger
from contrapose.diagnose.games import Side
from contrapose.diagnose.masking import Baseline, parse_baseline
from contrapose.diagnose.superpixels import USUAL
from contrapose.diagnose.words import Players
from contrapose.errors import InputError
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.models.masks import TOKEN_0
from contrapose.scoring import Policy

RELEASED = "released"

SCENES_PARTS = ("location", "attribute", "swap-attribute", "swap-relation")
"""The parts of `scenes` whose captions speak of two things, changed in place or exchanged."""

USUAL_PARTS: Mapping[str, tuple[str, ...]] = {
    "scenes": SCENES_PARTS,
    "scenes-skewed": SCENES_PARTS,
}
"""The parts of a suite that are diagnosed when the user names none; of others all."""


@dataclass(frozen=True, slots=True)
class DiagnoseRequest:
    """What the user asked; the options of `contrapose diagnose` by the same names.

    Attributes:
        benchmark: a name as `find_benchmark` knows it.
        side: None takes all where there are regions, and the text side where there are none.
        players: word groups and objects, single words, or superpixels.
        superpixels: how many, of each image.
        baseline: what stands in place of hidden words and regions.
        score: None takes the first that the model gives.
        root: the benchmark's folder.
        subsets: parts of a suite or values of the tag `subset`; none means the usual ones.
        limit: at most so many examples of each subset.
        groups: a file of word groups.
        regions: a file of regions, or a folder of masks.
        tagger: of captions that follow no template.
        preset: `released` does as the authors' script.
        device: where models compute.
        dtype: what they compute in; None is as the model's name says.
        batch_size: None takes each model's suggestion.
        workers: threads that decode images; None is one a core.
        cache: where answers are kept; None keeps them in memory alone.
        ask: what to do with what the cache knows.
        trust_remote_code: run code that comes with a model's weights.
        resamples: of the bootstrap.
        seed: of everything random.
    """

    benchmark: str
    side: Side | None = None
    players: Players = "groups"
    superpixels: int = USUAL
    baseline: Baseline = field(default_factory=Baseline)
    score: str | None = None
    root: Path | None = None
    subsets: tuple[str, ...] = ()
    limit: int | None = None
    groups: Path | None = None
    regions: Path | None = None
    tagger: Tagger = "textblob"
    preset: str | None = None
    device: str = "auto"
    dtype: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    cache: Path | str | None = None
    ask: Policy = "missing"
    trust_remote_code: bool = False
    resamples: int = RESAMPLES
    seed: int = 0


def baseline_for(text: str | None, preset: str | None, seed: int) -> Baseline:
    """The baseline as it was typed, or that of a preset.

    Raises:
        InputError: there is no such baseline, or both say one.
    """
    if preset != RELEASED:
        return Baseline(seed=seed) if text is None else parse_baseline(text, seed)
    if text is not None:
        raise InputError("--preset released has a baseline of its own; leave out --baseline.")
    return Baseline(text=TOKEN_0, seed=seed)
