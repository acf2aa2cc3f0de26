"""Names of the scores, and of the fusions of composed and edit queries: `itc:sum:scale=0.5`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contrapose.data import DEV
from contrapose.errors import InputError
from contrapose.files import did_you_mean
from contrapose.metrics.fusion import FUSIONS, check_scale, require_fusion

FUSION_SCORES: Mapping[str, str] = {
    f"itc:{name}": f"composed queries: {fusion.title}"
    for name, fusion in FUSIONS.items()
    if set(fusion.needs) <= {"image", "text"}
}
"""Scores of composed queries, by the fusions that need an image and a text."""

EDIT_SCORES: Mapping[str, str] = {
    "itc:delta": "edit queries: cosine with image + λ·(target word − source word)",
    "itc:sentence": "edit queries: cosine with image + λ·(mean difference of the benchmark's "
    "captions that differ in the two words)",
    "itc:caption": "edit queries: cosine with the caption nearest to the image + λ·(target word − "
    "source word)",
    "itc:text": "edit queries: cosine with the target caption, the upper bound",
    "itc:image": "edit queries: cosine with the image, without any change",
    "itc:random": "edit queries: a random order of the images",
    "itc:text-delta": "edit queries: cosine of captions, not of images, with the image's caption + "
    "λ·(target word − source word)",
}
"""Scores of edit queries: delta vectors and the baselines of the SIMAT paper."""

SCALED_EDITS = ("itc:delta", "itc:sentence", "itc:caption", "itc:text-delta")
"""Scores of edit queries that have a λ."""

SCORES: Mapping[str, str] = {
    "itc": "cosine of the dual encoder's image and text vectors; the largest where an image has "
    "several",
    "itm": "match logit of the fusion encoder",
    "lm": "mean over caption tokens of log P(token | tokens before, image); VisualGPTScore is its "
    "exp, which orders captions alike",
    "vqa": "log P(Yes | image, a question about the caption); VQAScore is its exp, which orders "
    "captions alike",
    "prior": "log of the mean over noise images of exp(lm): what the model thinks of a caption "
    "without seeing anything",
    "blind": "mean over caption tokens of log P(token | tokens before) of a language model that "
    "sees no image",
    "chat": "multiple choice asked in words, options in every order: chat:eqben for 2 × 2, "
    "chat:yes-no for 1 × 1, else chat:sugarcrepe",
    "chat:eqben": "two images side by side, two captions: which belongs to which? Both caption "
    "orders and both image orders",
    "chat:sugarcrepe": "one image: which of its captions describes it best? Every cyclic order",
    "chat:yes-no": "one image, one caption or question: yes or no",
    **EDIT_SCORES,
    **FUSION_SCORES,
    **{
        name: f"{FUSION_SCORES[name]}; {EDIT_SCORES[name]}"
        for name in EDIT_SCORES
        if name in FUSION_SCORES
    },
}
"""Every score that a model can give, and its definition (methods, section 2)."""

SCALE = ":scale="

ALL_EDIT_SCORES = (
    "itc:delta", f"itc:delta{SCALE}{DEV}", "itc:sentence", f"itc:sentence{SCALE}{DEV}",
    "itc:caption", "itc:text", "itc:image", "itc:random", "itc:text-delta",
)  # fmt: skip
"""Scores that `itc` means for edit queries alone; `scale=dev` is λ chosen on the dev queries."""


CHAT = "chat"
"""The score of chat prompts; a template's name may follow after a colon."""


def is_chat(score: str) -> bool:
    """Whether a score is a multiple-choice chat prompt."""
    return score.partition(":")[0] == CHAT


def base_score(score: str) -> str:
    """Name of a score without its λ."""
    return score.partition(SCALE)[0]


def parse_fusion_score(score: str) -> tuple[str, float | None]:
    """Fusion of a score and its λ; None for the fusion's own.

    Raises:
        InputError: it names no fusion, or λ is outside its range.
    """
    base, _, text = score.partition(SCALE)
    if base not in FUSION_SCORES:
        near = did_you_mean(base, FUSION_SCORES)
        raise InputError(f"composed queries need a fusion, and {score!r} is none: {near}")
    fusion = require_fusion(base.partition(":")[2])
    if SCALE not in score:
        return fusion.name, None
    return fusion.name, check_scale(fusion, _parse_scale(score, text))


def describe_fusion(score: str) -> str:
    """Describe the fusion of a score, with its λ."""
    name, scale = parse_fusion_score(score)
    fusion = require_fusion(name)
    weight = fusion.scale if scale is None else scale
    return f"{score} ranks by {fusion.title}" + (f", λ = {weight:g}" if weight is not None else "")


@dataclass(frozen=True, slots=True)
class EditScore:
    """Score of edit queries.

    Attributes:
        base: a key of `EDIT_SCORES`.
        scale: λ; None takes that of the edit set.
        dev: whether λ is chosen on the dev queries.
    """

    base: str
    scale: float | None = None
    dev: bool = False


def parse_edit_score(score: str) -> EditScore:
    """Kind of an edit score and its λ; plain `itc` is `itc:delta`.

    Raises:
        InputError: it is none, or its λ is outside its range.
    """
    base, _, text = score.partition(SCALE)
    if base == "itc":
        base = "itc:delta"
    if base not in EDIT_SCORES:
        near = did_you_mean(base, EDIT_SCORES)
        raise InputError(f"edit queries need vectors, and {score!r} does not add them: {near}")
    if SCALE not in score:
        return EditScore(base)
    if base not in SCALED_EDITS:
        raise InputError(f"the score {base} has no λ; leave {SCALE.strip(':')} out.")
    if text == DEV:
        return EditScore(base, dev=True)
    return EditScore(base, check_scale(require_fusion("delta"), _parse_scale(score, text)))


def _parse_scale(score: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"λ of the score {score!r} must be a number.") from None


def require_known_score(score: str) -> None:
    """Require that there is a score of this name.

    Raises:
        InputError: there is none, or its λ is outside its range; suggests close names.
    """
    if base_score(score) not in SCORES:
        raise InputError(f"there is no score {score!r}: {did_you_mean(score, SCORES)}")
    if base_score(score) in EDIT_SCORES:
        parse_edit_score(score)
    elif base_score(score) != score:
        parse_fusion_score(score)
