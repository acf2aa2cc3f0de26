"""Evaluation panels: held-out pairs, zero-shot classes, and the interaction share on swaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from contrapose.data import open_images
from contrapose.data.benchmarks.classes import read
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.losses.dividend import Dividend
from contrapose.metrics import FloatArray
from contrapose.models.masking.text import ZERO
from contrapose.tune.data.rows import IndexArray, TrainingSet
from contrapose.tune.masked_batches import MASKED_COALITIONS, complete_games, mask_players

if TYPE_CHECKING:
    from PIL.Image import Image

TrialKind = Literal["choice", "pairs", "triple", "gallery", "classes"]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Examples of one shape.

    Attributes:
        name: under which the bill has them.
        kind: `choice`: an image and captions, the first right; `pairs`: two images and two
            captions; `triple`: an image and a caption, a hard negative, a hard positive; `gallery`:
            images and a caption of each; `classes`: images, and the captions of all classes.
        images: (k, m) places of images.
        texts: (k, n) places of captions; (c,) of classes, or (c, t) where each has several prompts,
            whose vectors are averaged.
        right: (k,) the right class.
        ks: among the first how many the right class is to be.
    """

    name: str
    kind: TrialKind
    images: IndexArray
    texts: IndexArray
    right: IndexArray | None = None
    ks: tuple[int, ...] = (1,)


class PanelImages(Protocol):
    """Pictures of a panel, opened when they are needed."""

    def __len__(self) -> int: ...

    def open(self, places: Sequence[int]) -> list[Image]:
        """Some of them."""


@dataclass(slots=True, eq=False)
class EvaluationPanel:
    """Tests on common pictures and captions.

    Attributes:
        source: what it is made of, in words.
        images: every picture once.
        texts: every caption once.
        tests: what is asked.
    """

    source: str
    images: PanelImages
    texts: list[str]
    tests: list[Trial]


@dataclass(slots=True)
class PanelBuilder:
    """Puts a panel together, every picture and caption once."""

    pictures: dict[object, int] = field(default_factory=dict)
    captions: dict[str, int] = field(default_factory=dict)

    def image(self, key: object) -> int:
        """The place of a picture."""
        return self.pictures.setdefault(key, len(self.pictures))

    def text(self, text: str) -> int:
        """The place of a caption."""
        return self.captions.setdefault(text, len(self.captions))

    def test(
        self,
        name: str,
        kind: TrialKind,
        examples: Iterable[tuple[Sequence[object], Sequence[str]]],
    ) -> Trial:
        """A test of examples: pictures and captions of each."""
        rows = [
            ([self.image(key) for key in keys], [self.text(text) for text in texts])
            for keys, texts in examples
        ]
        return Trial(
            name,
            kind,
            np.array([images for images, _ in rows], dtype=np.int64),
            np.array([texts for _, texts in rows], dtype=np.int64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class KeyedImages:
    """Pictures by what opens some of their keys."""

    keys: Sequence[object]
    opener: Callable[[Sequence[object]], list[Image]]

    def __len__(self) -> int:
        return len(self.keys)

    def open(self, places: Sequence[int]) -> list[Image]:
        """Some of them."""
        return self.opener([self.keys[place] for place in places])


def require_tests(panel: EvaluationPanel) -> EvaluationPanel:
    """The panel, if it asks anything.

    Raises:
        InputError: it does not.
    """
    if not any(len(test.images) for test in panel.tests):
        raise InputError(f"{panel.source} holds nothing to measure the model by.")
    return panel


def count_examples(panel: EvaluationPanel) -> Mapping[str, int]:
    """How many examples each test has."""
    return {test.name: len(test.images) for test in panel.tests}


SWAP_KINDS = ("swap", "exchange", "order", "shuffle", "trigram", "noun", "rewrite-exchange")
REPLACEMENT_KINDS = ("replace", "attribute", "object", "relation", "number", "rewrite-contrast")
MAX_HELD_OUT_IMAGES = 1000
"""Images at most; more would not change a verdict."""


def make_pairs_panel(
    rows: TrainingSet, model: Any = None, source: str = "held-out pairs"
) -> EvaluationPanel:
    """Choices between each caption and its negatives, triples, retrieval, and close pairs.

    Args:
        rows: what was held out.
        model: gives vectors of captions, by which close pairs are found, the same before and after;
            without it there are none.
        source: what the rows are, in words.

    Raises:
        InputError: there is nothing to ask.
    """
    count = min(len(rows), MAX_HELD_OUT_IMAGES)
    found = PanelBuilder()
    choices: dict[str, list[tuple[list[object], list[str]]]] = {}
    triples: list[tuple[list[object], list[str]]] = []
    for row in range(count):
        for saying in rows.image_captions[row]:
            for text, kind in saying.negatives:
                choices.setdefault(_change_group(kind), []).append(([row], [saying.caption, text]))
            if saying.negatives and saying.positives:
                three = [saying.caption, saying.negatives[0][0], saying.positives[0][0]]
                triples.append(([row], three))
    firsts = [rows.image_captions[row][0].caption for row in range(count)]
    tests: list[Trial] = [
        found.test(name, "choice", choices[name])
        for name in ("swaps", "replacements", "other changes")
        if name in choices
    ]
    if model is not None and count > 3:
        pairs = _find_close_pairs(model, firsts)
        close = [([i, j], [firsts[i], firsts[j]]) for i, j in pairs if firsts[i] != firsts[j]]
        if close:
            tests.append(found.test("close pairs", "pairs", close))
    if triples:
        tests.append(found.test("hard positives", "triple", triples))
    distinct = list({text: row for row, text in reversed(list(enumerate(firsts)))}.items())
    own = [([row], [text]) for text, row in sorted(distinct, key=lambda each: each[1])]
    if len(own) > 1:
        tests.append(found.test("retrieval", "gallery", own))
    keys = list(found.pictures)

    def opened(some: Sequence[object]) -> list[Image]:
        return rows.images.open([int(str(key)) for key in some])

    return require_tests(
        EvaluationPanel(source, KeyedImages(keys, opened), list(found.captions), tests)
    )


def split_training_set(
    rows: TrainingSet, share: float, seed: int
) -> tuple[TrainingSet, TrainingSet]:
    """Split a training set into a training part and a held-out part."""
    order = np.random.default_rng((seed, 3)).permutation(len(rows))
    held = min(max(1, round(share * len(rows))), len(rows) - 1) if len(rows) > 1 else 0
    return rows.take(sorted(order[held:].tolist())), rows.take(sorted(order[:held].tolist()))


def _change_group(kind: str) -> str:
    names: Mapping[str, tuple[str, ...]] = {"swaps": SWAP_KINDS, "replacements": REPLACEMENT_KINDS}
    for name, beginnings in names.items():
        if kind.startswith(beginnings):
            return name
    return "other changes"


def _find_close_pairs(model: Any, captions: Sequence[str]) -> list[tuple[int, int]]:
    """Each image with the one whose caption reads nearest; every pair once."""
    size = max(1, model.batch_size)
    vectors = np.concatenate(
        [
            model.embed_texts(captions[start : start + size]).float().cpu().numpy()
            for start in range(0, len(captions), size)
        ]
    )
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    for i, text in enumerate(captions):  # the same text is no other caption
        cosines[i, [j for j, other in enumerate(captions) if other == text]] = -np.inf
    nearest = cosines.argmax(axis=1)
    pairs = {(min(i, int(j)), max(i, int(j))) for i, j in enumerate(nearest) if i != j}
    return sorted(pairs)


ZERO_SHOT = "zero_shot"
MAX_ZERO_SHOT_IMAGES = 5000
"""Images at most, drawn from all; more would not change a verdict."""
ZERO_SHOT_NOTE = (
    "zero-shot classification was not measured: --zero-shot DIR does it, a folder with a folder of "
    "images a class"
)


def make_zero_shot_panel(root: Path, seed: int = 0) -> EvaluationPanel:
    """Images in a folder a class, to be named by the class's prompts.

    The folder is what the benchmark `class-folders` reads: names may stand in `classnames.txt` and
    prompts in `templates.txt`. A class's vector is the mean of its prompts' (Radford et al. 2021).

    Args:
        root: the folder.
        seed: of the draw, where there are more than `MOST` images.

    Raises:
        InputError: the folder cannot be read, or has one class alone.
    """
    gallery = read(root, StrictProblems())
    if len(gallery.texts) < 2:
        raise InputError("has one class: zero-shot classification needs two or more.", file=root)
    pairs = gallery.pairs
    if len(pairs) > MAX_ZERO_SHOT_IMAGES:
        drawn = np.random.default_rng((seed, 7)).choice(
            len(pairs), MAX_ZERO_SHOT_IMAGES, replace=False
        )
        pairs = tuple(pairs[i] for i in sorted(drawn.tolist()))
    found = PanelBuilder()
    prompts = [
        [found.text(template.replace("{}", name)) for template in gallery.templates]
        for name in gallery.texts
    ]
    test = Trial(
        ZERO_SHOT,
        "classes",
        np.arange(len(pairs))[:, None],
        np.array(prompts, dtype=np.int64),
        np.array([right for _, right in pairs], dtype=np.int64),
        ks=(1, 5) if len(gallery.texts) > 5 else (1,),
    )
    refs = [gallery.images[image] for image, _ in pairs]

    def opened(some: Sequence[object]) -> list[Image]:
        return list(open_images([refs[int(str(key))] for key in some]))

    source = f"{len(pairs):,} images of {len(gallery.texts):,} classes in {root}"
    shown = KeyedImages(range(len(refs)), opened)
    return EvaluationPanel(source, shown, list(found.captions), [test])


@dataclass(frozen=True, slots=True)
class ImageConcatenation:
    """Pictures of two panels, one after the other."""

    first: PanelImages
    second: PanelImages

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def open(self, places: Sequence[int]) -> list[Image]:
        """Some of them."""
        start = len(self.first)
        sides = (
            (self.first, [place for place in places if place < start]),
            (self.second, [place - start for place in places if place >= start]),
        )
        left, right = (iter(shown.open(some) if some else []) for shown, some in sides)
        return [next(left) if place < start else next(right) for place in places]


def join_panels(first: EvaluationPanel, second: EvaluationPanel) -> EvaluationPanel:
    """Both panels as one; the places of the second move behind those of the first."""
    later = [
        Trial(
            test.name,
            test.kind,
            test.images + len(first.images),
            test.texts + len(first.texts),
            test.right,
            test.ks,
        )
        for test in second.tests
    ]
    return EvaluationPanel(
        f"{first.source}; {second.source}",
        ImageConcatenation(first.images, second.images),
        [*first.texts, *second.texts],
        [*first.tests, *later],
    )


SWAPS = "swaps"


class PlayableSwaps(NamedTuple):
    """The swaps of a panel that can be played.

    Attributes:
        images: (k,) places of the images.
        texts: (k, 2) places of the right caption and of the wrong one.
        masked: (k · 6) the captions with words hidden.
    """

    images: IndexArray
    texts: IndexArray
    masked: list[str]


def find_playable_swaps(panel: EvaluationPanel) -> PlayableSwaps | None:
    """The swaps of a panel whose captions both have both players; None where there are none.

    Raises:
        MissingExtraError: captions must be tagged, and the tagger is not installed.
    """
    found = next((test for test in panel.tests if test.name == SWAPS), None)
    if found is None or not len(found.images):
        return None
    hidden = {text: mask_players(panel.texts[text]) for text in np.unique(found.texts).tolist()}
    kept = [i for i, pair in enumerate(found.texts.tolist()) if all(hidden[t] for t in pair)]
    if not kept:
        return None
    texts = found.texts[kept]
    masked = [each for text in texts.reshape(-1).tolist() for each in hidden[text] or ()]
    return PlayableSwaps(found.images[kept, 0], texts, masked)


def interaction_shares(
    swaps: PlayableSwaps, model: Any, images: Tensor, texts: Tensor
) -> FloatArray | None:
    """(k,) the share of each swap; None of a model that cannot hide these words by zeros.

    Args:
        swaps: what is asked.
        model: reads captions with hidden words.
        images: (n, d) its vectors of all pictures.
        texts: (m, d) of all captions.
    """
    if ZERO not in getattr(model, "text_masks", ()):
        return None
    size = max(1, model.batch_size)
    starts = range(0, len(swaps.masked), size)
    try:
        read = [model.embed_texts(swaps.masked[i : i + size]).float().cpu() for i in starts]
    except InputError:  # the tokens of a word cannot be told from others
        return None
    masked = torch.cat(read).reshape(len(swaps.images), 2 * MASKED_COALITIONS, -1)
    whole = texts[torch.from_numpy(swaps.texts)]
    games = complete_games(masked, whole[:, 0], whole[:, 1])
    found = Dividend().shares(images[torch.from_numpy(swaps.images)][:, None], *games)
    return found.numpy().astype(np.float64)
