"""Generators that call a user's function: of both prompts, of one, or of an image to edit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contrapose.build.edits.generators import (
    CallForm,
    GenerationError,
    GeneratorOptions,
    ImagePair,
    to_image,
)
from contrapose.build.edits.recipe import EditPrompt
from contrapose.errors import ContraposeError, InputError, first_line, option

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.build.edits.generators import ImageEditor, PairGenerator, TextToImage


def wrap_callable(
    function: Callable[..., Any], options: GeneratorOptions
) -> PairGenerator | TextToImage | ImageEditor:
    """Wrap a function as a generator, by the form that the options name or that it shows.

    Raises:
        InputError: it is not clear how to call it.
    """
    name = getattr(function, "__name__", type(function).__name__)
    form = options.form if options.form != "auto" else _recognize_form(function, name)
    workers = options.workers or 1
    if form == "pair":
        return CallablePairs(function, name, workers, options.wording)
    return (CallableImages if form == "image" else CallableEditor)(function, name, workers)


@dataclass(frozen=True, slots=True)
class CallablePairs:
    """Generator that calls a function of both prompts, the seed and the size."""

    function: Callable[..., Any]
    name: str
    workers: int = 1
    wording: str = "{}"
    lists: str = "eqben"

    def generate(self, prompt: EditPrompt, size: int) -> ImagePair:
        """Generate the images of both captions."""
        first, second = (self.wording.replace("{}", caption) for caption in prompt.captions)
        images = call_function(self.function, (first, second), prompt.seed, size)
        images = getattr(images, "images", images)
        if not isinstance(images, tuple | list) or len(images) != 2:
            raise InputError(
                f"{self.name} must return two images, returned {type(images).__name__}."
            )
        return to_image(images[0], self.name), to_image(images[1], self.name)


@dataclass(frozen=True, slots=True)
class CallableImages:
    """Text-to-image generator that calls a function of a prompt and a seed."""

    function: Callable[..., Any]
    name: str
    workers: int = 1

    def draw(self, text: str, seed: int, size: int) -> Image:
        """Generate an image."""
        return to_image(call_function(self.function, text, seed), self.name)


@dataclass(frozen=True, slots=True)
class CallableEditor:
    """Editor that calls a function of an image, an instruction and a seed."""

    function: Callable[..., Any]
    name: str
    workers: int = 1

    def edit(self, image: Image, prompt: EditPrompt, size: int) -> Image:
        """Edit an image."""
        result = call_function(self.function, image, prompt.instruction, prompt.seed)
        return to_image(result, self.name)


def call_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; what it raises costs one pair.

    Raises:
        GenerationError: it raised something.
        MemoryError: there is no memory for it.
    """
    try:
        return function(*arguments)
    except (ContraposeError, MemoryError):
        raise
    except Exception as error:
        raise GenerationError(
            f"the generator raised {type(error).__name__} ({first_line(error)})."
        ) from error


FORM_NAMES: dict[str, CallForm] = {
    "prompts": "pair", "captions": "pair", "texts": "pair", "pair": "pair",
    "prompt": "image", "caption": "image", "text": "image",
    "image": "edit", "img": "edit", "picture": "edit",
}  # fmt: skip
"""Name of a callable's first argument → its form."""


def _recognize_form(function: Callable[..., Any], name: str) -> CallForm:
    """Form of a callable by the name of its first argument, or by their number.

    Raises:
        InputError: neither says it.
    """
    try:
        parameters = [
            one
            for one in inspect.signature(function).parameters.values()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
    except (ValueError, TypeError):
        parameters = []
    if parameters and parameters[0].name.lower() in FORM_NAMES:
        return FORM_NAMES[parameters[0].name.lower()]
    if len([one for one in parameters if one.default is one.empty]) == 2:
        return "image"
    raise InputError(
        f"it is not clear how to call {name}: pass {option('form', 'image')} for f(prompt, seed), "
        f"{option('form', 'pair')} for f(prompts, seed, size), {option('form', 'edit')} for "
        "f(image, instruction, seed)."
    )
