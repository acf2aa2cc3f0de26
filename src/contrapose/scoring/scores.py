"""Scores by name: what each is, which models can give it, and what it is called in the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from contrapose.data import did_you_mean
from contrapose.errors import InputError
from contrapose.models import (
    Answerer,
    Captioner,
    Chat,
    Encoder,
    Language,
    Matcher,
    Model,
    QuestionTemplate,
)

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
    "chat": "multiple choice asked in words, options in every order: chat:eqben for 2 × 2, else "
    "chat:sugarcrepe",
    "chat:eqben": "two images side by side, two captions: which belongs to which? Both caption "
    "orders and both image orders",
    "chat:sugarcrepe": "one image: which of its captions describes it best? Every cyclic order",
}
"""Every score that a model can be asked for, and what the number is (methods, section 2)."""

CAPABILITY: Mapping[str, type] = {
    "itc": Encoder,
    "itm": Matcher,
    "lm": Captioner,
    "vqa": Answerer,
    "prior": Captioner,
    "blind": Language,
    "chat": Chat,
    "chat:eqben": Chat,
    "chat:sugarcrepe": Chat,
}

UNSEEING = ("prior", "blind")
"""Scores of a caption alone: one number, whatever the image."""

LIKELIHOODS = ("lm", "vqa")
"""Log-probabilities under an image, from which a prior can be taken out."""

Progress = Callable[[str, int, int], None]
"""Told after each batch: what is being asked, how many are done, and how many there are."""


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
    """The scores asked for when the user names none: all the model can give that see the image.

    A model that gives none of those is asked for what it gives. To be asked in words takes long and
    may cost money: it is for those that say so in `default_scores`, or can do nothing else.
    """
    own: tuple[str, ...] | None = getattr(model, "default_scores", None)
    if own:
        return own
    able = tuple(
        name for name, needed in CAPABILITY.items() if isinstance(model, needed) and ":" not in name
    )
    return tuple(name for name in able if name not in (*UNSEEING, "chat")) or able


def parse_question(text: str | None, answer: str | None) -> QuestionTemplate:
    """The question of `vqa`, from what the user gave of it.

    Raises:
        InputError: it has no place, or several, for the caption, or the answer is empty.
    """
    usual = QuestionTemplate()
    asked = usual.text if text is None else text
    if asked.count("{}") != 1:
        raise InputError(
            f"--question must hold {{}} once, where the caption goes; found {asked!r}."
        )
    wanted = usual.answer if answer is None else answer.strip()
    if not wanted:
        raise InputError("--answer must not be empty; left out it is Yes.")
    return QuestionTemplate(asked, wanted)


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


def stored_as(model: Model, score: str, question: QuestionTemplate | None = None) -> str:
    """The score's name in the store, with everything that would make it another number."""
    if score in ("lm", "blind"):
        if not isinstance(model, Captioner if score == "lm" else Language):
            raise InputError(f"{model.name} gives no likelihoods.")
        return f"{score}:mean:{model.lm_tokens}"
    if score == "vqa":
        asked = question or QuestionTemplate()
        return f"vqa:log:{json.dumps([asked.text, asked.answer], ensure_ascii=False)}"
    if score.partition(":")[0] == "chat":
        return "chat:reply"
    if score == "itc":
        return "itc:max-cosine" if pools(model) else "itc:cosine"
    return "itm:logit"
