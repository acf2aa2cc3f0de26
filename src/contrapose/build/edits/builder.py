"""Builder of edit pairs: caption pairs of a recipe, drawn by a generator, filtered by a score."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

from contrapose.build.captions.balance import BlindTest
from contrapose.build.edits.generators import (
    GenerationError,
    ImagePair,
    PairGenerator,
)
from contrapose.build.edits.recipe import EditPrompt, EditRecipe
from contrapose.build.minimal_pairs import (
    MinimalPair,
    PairImage,
    PairSetBuild,
    PairSource,
    SourcePairs,
    file_name,
)
from contrapose.build.pair_sets import write_pair_set
from contrapose.build.score_filter import ScoreFilter
from contrapose.engine import Progress
from contrapose.errors import ContraposeError, InputError

if TYPE_CHECKING:
    from PIL.Image import Image

SUBSET = "sd"
"""Subset of EqBen whose format the set has."""
MOST_FAILURES = 10
"""Failed pairs in a row after which a build ends: the generator is out of order."""
FILTERS = ("planned", "generated", "not blank", "images differ")
"""Filters of a pair, in order."""
SHOWN = 6
"""Caption pairs that a dry run shows."""


@dataclass(frozen=True, slots=True)
class EditBuild:
    """Settings of a build of edit pairs.

    Attributes:
        recipe: lists of words.
        pairs: number of caption pairs to draw.
        size: width and height that the generator is asked for.
        wording: text that is sent, with {} for the caption.
        seed: of captions and images.
        workers: pairs at the same time, at most what the generator allows; None takes that.
        image_format: of the written images.
        filter: filter by a score; None keeps all.
        test: blind scores of the audit.
    """

    recipe: EditRecipe
    pairs: int = 300
    size: int = 512
    wording: str = "{}"
    seed: int = 0
    workers: int | None = None
    image_format: Literal["png", "jpeg"] = "png"
    filter: ScoreFilter | None = None
    test: BlindTest = field(default_factory=BlindTest)

    def pair_set(self, generator: PairGenerator) -> PairSetBuild:
        """Settings of the set of pairs."""
        return PairSetBuild(
            builder="edits",
            subset=SUBSET,
            source=self.recipe.source,
            parameters={
                "generator": generator.name,
                "code": digest_code(generator),
                "lists": digest_recipe(self.recipe),
                "kinds": list(self.recipe.kinds()),
                "pairs": self.pairs,
                "size": self.size,
                "prompt": self.wording,
            },
            choice={} if self.filter is None else {"filter": self.filter.parameters},
            seed=self.seed,
            image_format=self.image_format,
            test=self.test,
            workers=min(self.workers or generator.workers, generator.workers),
        )


def build_edits(
    generator: PairGenerator,
    out: Path,
    build: EditBuild,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Generate the pairs and write them in EqBen's format; a build that was stopped goes on.

    Returns:
        The manifest: generator, lists, seeds, the counts at every filter, and the audit.

    Raises:
        InputError: nothing is left, too many pairs in a row fail, or the folder cannot be used.
        EndpointError: the server of the images is down; finished pairs are kept.
    """
    prompts = build.recipe.draw(build.pairs, build.seed)
    health = GeneratorHealth()
    settings = build.pair_set(generator)
    fingerprint = json.dumps(settings.parameters, sort_keys=True)

    def source(prompt: EditPrompt) -> PairSource:
        return PairSource(
            prompt.id,
            hashlib.blake2b(f"{fingerprint}{prompt}".encode(), digest_size=16).hexdigest(),
            lambda: make_pair(generator, prompt, build, health),
        )

    return write_pair_set(
        [source(prompt) for prompt in prompts],
        out,
        settings,
        choose=None if build.filter is None else build.filter.choose,
        overwrite=overwrite,
        progress=progress,
    )


def plan_edits(generator: PairGenerator, build: EditBuild) -> dict[str, Any]:
    """Counts of a build and some of its captions; nothing is generated and nothing written."""
    prompts = build.recipe.draw(build.pairs, build.seed)
    kinds = Counter(prompt.kind for prompt in prompts)
    distinct = build.recipe.count_pairs()
    return {
        **build.pair_set(generator).description,
        "expected": {"pairs": len(prompts), "images": 2 * len(prompts), **kinds},
        "distinct": distinct,
        "repeated": sum(max(0, kinds[kind] - count) for kind, count in distinct.items()),
        "shown": [
            {"kind": one.kind, "captions": list(one.captions), "seed": one.seed}
            for one in prompts[:SHOWN]
        ],
    }


class GeneratorHealth:
    """Count of failures in a row, over all threads."""

    def __init__(self) -> None:
        self._failures = 0
        self._lock = Lock()

    def succeed(self) -> None:
        """Note a pair that was made."""
        with self._lock:
            self._failures = 0

    def fail(self, error: GenerationError) -> None:
        """Note a pair that could not be made.

        Raises:
            InputError: too many in a row could not.
        """
        with self._lock:
            self._failures += 1
            failures = self._failures
        if failures >= MOST_FAILURES:
            raise InputError(
                f"{failures} pairs in a row could not be generated, the last one since "
                f"{error.message.rstrip('.')}; finished pairs are kept, and the same build goes on "
                "from there."
            )


def make_pair(
    generator: PairGenerator, prompt: EditPrompt, build: EditBuild, health: GeneratorHealth
) -> SourcePairs:
    """Generate and check the images of one caption pair.

    Raises:
        ContraposeError: no further pair can be generated.
    """
    counts = dict.fromkeys(FILTERS, 0) | {"planned": 1}
    try:
        images = generator.generate(prompt, build.size)
        _require_same_size(images)
    except GenerationError as error:
        health.fail(error)
        return SourcePairs((), counts, (error.message,))
    except (ContraposeError, MemoryError):
        raise
    health.succeed()
    counts["generated"] = 1
    if any(map(is_blank, images)):
        return SourcePairs((), counts)
    counts["not blank"] = 1
    if images[0].tobytes() == images[1].tobytes():
        return SourcePairs((), counts)
    counts["images differ"] = 1
    name = file_name(prompt.id)
    pair = MinimalPair(
        prompt.id,
        (PairImage(f"{name}_0", images[0]), PairImage(f"{name}_1", images[1])),
        prompt.captions,
        {
            "kind": prompt.kind,
            "old": prompt.values[0],
            "new": prompt.values[1],
            "prompt0": build.wording.replace("{}", prompt.captions[0]),
            "prompt1": build.wording.replace("{}", prompt.captions[1]),
            "instruction": prompt.instruction,
            "seed": str(prompt.seed),
        },
    )
    return SourcePairs((pair,), counts)


def _require_same_size(images: ImagePair) -> None:
    first, second = (f"{image.width} × {image.height}" for image in images)
    if first != second:
        raise GenerationError(f"the two images have different sizes, {first} and {second}.")


def is_blank(image: Image) -> bool:
    """Whether all pixels of an image are the same, as those of a blotted-out one."""
    extrema: Any = image.getextrema()
    return all(low == high for low, high in extrema)


def digest_recipe(recipe: EditRecipe) -> str:
    """Digest of lists and templates."""
    rules = [
        [rule.kind, rule.changes, rule.templates, [dict(group) for group in rule.groups]]
        for rule in recipe.rules
    ]
    return hashlib.blake2b(json.dumps(rules).encode(), digest_size=8).hexdigest()


def digest_code(generator: PairGenerator) -> str:
    """Digest of the functions that a generator calls; empty where it calls none of the user's.

    A build that was stopped goes on only with the same functions.
    """
    parts = (generator, getattr(generator, "source", None), getattr(generator, "editor", None))
    codes = [getattr(getattr(part, "function", None), "__code__", None) for part in parts]
    texts = [_describe_code(code) for code in codes if isinstance(code, CodeType)]
    return hashlib.blake2b("".join(texts).encode(), digest_size=8).hexdigest() if texts else ""


def _describe_code(code: CodeType) -> str:
    constants = [
        _describe_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts
    ]
    return f"{code.co_code.hex()}{code.co_names}{constants}"
