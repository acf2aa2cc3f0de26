"""Scores by name: what each is, which models can give it, and what it is called in the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contrapose.data import did_you_mean
from contrapose.errors import InputError
from contrapose.models import Captioner, Encoder, Matcher, Model

SCORES: Mapping[str, str] = {
    "itc": "cosine of the dual encoder's image and text vectors; the largest where an image has "
    "several",
    "itm": "match logit of the fusion encoder",
    "lm": "mean over caption tokens of log P(token | tokens before, image); VisualGPTScore is its "
    "exp, which orders captions alike",
    "prior": "log of the mean over noise images of exp(lm): what the model thinks of a caption "
    "without seeing anything",
}
"""Every score that a model can be asked for, and what the number is (methods, section 2)."""

CAPABILITY: Mapping[str, type] = {
    "itc": Encoder,
    "itm": Matcher,
    "lm": Captioner,
    "prior": Captioner,
}

Progress = Callable[[str, int, int], None]
"""Told after each batch: what is being asked, how many are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Noise:
    """A prior from Gaussian-noise images.

    Attributes:
        count: how many images.
        seed: of the noise.
    """

    count: int = 3
    seed: int = 0


def parse_prior(text: str, *, seed: int = 0) -> Noise:
    """The prior that a text such as `noise:3` asks for.

    Raises:
        InputError: it is of another form.
    """
    kind, _, count = text.partition(":")
    if kind != "noise" or not (count or "3").isdecimal() or int(count or 3) < 1:
        raise InputError(f"--prior must be noise:COUNT, such as noise:3, found {text!r}.")
    return Noise(int(count or 3), seed)


def pools(model: Model) -> bool:
    """Whether a model gives an image several vectors, of which the nearest to a caption counts.

    Raises:
        InputError: it pools them in a way that is not known here.
    """
    pool = getattr(model, "pool", None)
    if pool not in (None, "max"):
        raise InputError(f"{model.name} has the pool {pool!r}; 'max' is the only one there is.")
    return pool is not None


def scores_of(model: Model) -> tuple[str, ...]:
    """The scores asked for when the user names none: all the model can give that see the image."""
    return tuple(
        name for name, needed in CAPABILITY.items() if name != "prior" and isinstance(model, needed)
    )


def require_score(model: Model, score: str) -> None:
    """Say so when a model cannot be asked for a score.

    Raises:
        InputError: there is no such score, or the model cannot give it.
    """
    if score not in SCORES:
        raise InputError(f"there is no score {score!r}: {did_you_mean(score, SCORES)}")
    if not isinstance(model, CAPABILITY[score]):
        able = [name for name, needed in CAPABILITY.items() if isinstance(model, needed)]
        raise InputError(
            f"{model.name} cannot give {score!r}; it gives {', '.join(able) or 'no score'}."
        )


def stored_as(model: Model, score: str, noise: Noise | None = None) -> str:
    """The score's name in the store, with everything that would make it another number."""
    if score in ("lm", "prior"):
        if not isinstance(model, Captioner):
            raise InputError(f"{model.name} gives no likelihoods.")
        tokens = f"mean:{model.lm_tokens}"
        drawn = noise or Noise()
        return (
            f"lm:{tokens}"
            if score == "lm"
            else f"prior:noise:{drawn.count}:seed:{drawn.seed}:{tokens}"
        )
    if score == "itc":
        return "itc:max-cosine" if pools(model) else "itc:cosine"
    return "itm:logit"
