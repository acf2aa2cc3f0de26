"""Generators of image pairs: any callable, or one by name, behind one protocol.

diffusers:FOLDER_OR_ID   a pipeline of diffusers, from a folder or the hub
http://…, https://…      a server that replies with an image, as bytes or in JSON
openai:MODEL,url=…       a server of OpenAI's image protocol
scenes                   the built-in renderer, for captions of its grammar
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from contrapose.build.edits.recipe import EditPrompt
from contrapose.data.images import decode_image
from contrapose.data.pixels import require_size, to_rgb
from contrapose.errors import InputError, option

if TYPE_CHECKING:
    from PIL.Image import Image

ImagePair = tuple["Image", "Image"]

CallForm = Literal["auto", "pair", "image", "edit"]
"""Arguments of a callable: (prompts, seed, size), (prompt, seed), or (image, instruction, seed)."""

SMALLEST_SIDE = 8
"""Pixels of the shortest side of a generated image."""


class GenerationError(InputError):
    """One pair could not be generated; the others can."""


@runtime_checkable
class PairGenerator(Protocol):
    """Generator of image pairs."""

    @property
    def name(self) -> str:
        """Name as the manifest has it, without credentials."""

    @property
    def lists(self) -> str:
        """Name of the lists that suit it."""

    @property
    def workers(self) -> int:
        """Pairs that it can make at the same time."""

    def generate(self, prompt: EditPrompt, size: int) -> ImagePair:
        """Generate the images of both captions.

        Raises:
            GenerationError: this pair cannot be made.
            ContraposeError: no further pair can be made.
        """


@runtime_checkable
class TextToImage(Protocol):
    """Generator of one image from a text; the same seed starts from the same noise."""

    @property
    def name(self) -> str:
        """Name as the manifest has it, without credentials."""

    @property
    def workers(self) -> int:
        """Images that it can make at the same time."""

    def draw(self, text: str, seed: int, size: int) -> Image:
        """Generate an image.

        Raises:
            GenerationError: this one cannot be made.
        """


@runtime_checkable
class ImageEditor(Protocol):
    """Editor of images by an instruction or by the caption of the result."""

    @property
    def name(self) -> str:
        """Name as the manifest has it, without credentials."""

    @property
    def workers(self) -> int:
        """Images that it can make at the same time."""

    def edit(self, image: Image, prompt: EditPrompt, size: int) -> Image:
        """Edit the image of the first caption into that of the second.

        Raises:
            GenerationError: this one cannot be made.
        """


@dataclass(frozen=True, slots=True)
class PromptPairs:
    """Pairs of a text-to-image generator: both captions from one seed.

    Attributes:
        source: the generator.
        wording: text that is sent, with {} for the caption.
    """

    source: TextToImage
    wording: str = "{}"
    lists: str = "eqben"

    @property
    def name(self) -> str:
        """Name of the generator."""
        return self.source.name

    @property
    def workers(self) -> int:
        """Pairs that can be made at the same time."""
        return self.source.workers

    def generate(self, prompt: EditPrompt, size: int) -> ImagePair:
        """Generate the images of both captions from the same seed."""
        first, second = (
            self.source.draw(self.wording.replace("{}", caption), prompt.seed, size)
            for caption in prompt.captions
        )
        return first, second


@dataclass(frozen=True, slots=True)
class EditedPairs:
    """Pairs of a generated image and its edited form.

    Attributes:
        source: generator of the first image.
        editor: of the second.
        wording: text that is sent for the first image, with {} for the caption.
    """

    source: TextToImage
    editor: ImageEditor
    wording: str = "{}"
    lists: str = "eqben"

    @property
    def name(self) -> str:
        """Names of generator and editor."""
        return f"{self.source.name}, edited by {self.editor.name}"

    @property
    def workers(self) -> int:
        """Pairs that can be made at the same time."""
        return min(self.source.workers, self.editor.workers)

    def generate(self, prompt: EditPrompt, size: int) -> ImagePair:
        """Generate the first image, and edit it into the second."""
        text = self.wording.replace("{}", prompt.captions[0])
        first = self.source.draw(text, prompt.seed, size)
        return first, self.editor.edit(first, prompt, size)


def to_image(value: Any, name: str) -> Image:
    """RGB image of what a generator returned: an image, an array, bytes, or a list with one.

    Raises:
        GenerationError: it is none, too small or too large.
    """
    import numpy as np
    from PIL import Image

    value = getattr(value, "images", value)
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    try:
        if isinstance(value, bytes):
            image = decode_image(value)
        elif isinstance(value, np.ndarray):
            if value.dtype != np.uint8 or value.ndim != 3 or value.shape[2] != 3:
                raise InputError(
                    f"expected an array of height × width × 3 bytes, found {value.shape} "
                    f"{value.dtype}."
                )
            image = Image.fromarray(np.ascontiguousarray(value))
        elif isinstance(value, Image.Image):
            require_size(value.width, value.height)
            image = to_rgb(value)
        else:
            raise InputError(f"expected an image, found {type(value).__name__}.")
        require_size(image.width, image.height)
    except InputError as error:
        raise GenerationError(f"{name} returned no image that can be used: {error}") from None
    if min(image.size) < SMALLEST_SIDE:
        raise GenerationError(f"{name} returned an image of {image.width} × {image.height} pixels.")
    return image


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """Options of generators.

    Attributes:
        wording: text that is sent, with {} for the caption.
        workers: pairs at the same time; None takes what the generator says.
        device: where a pipeline computes.
        form: arguments of a callable.
        plan: load no weights, since nothing is generated.
    """

    wording: str = "{}"
    workers: int | None = None
    device: str = "auto"
    form: CallForm = "auto"
    plan: bool = False


def load_generator(
    generator: str | Callable[..., Any] | PairGenerator,
    editor: str | Callable[..., Any] | None = None,
    options: GeneratorOptions | None = None,
) -> PairGenerator:
    """Load a generator by name, or wrap a callable.

    Raises:
        InputError: the name is not known, the callable's arguments are not, or an editor is given
            to a generator that needs none.
        MissingExtraError: it needs diffusers, which is not installed.
    """
    options = options or GeneratorOptions()
    if "{}" not in options.wording:
        raise InputError(f"{option('prompt')} must hold {{}}, where the caption goes.")
    source = _load_source(generator, options)
    if editor is None:
        if isinstance(source, PairGenerator):
            return source
        if isinstance(source, TextToImage):
            return PromptPairs(source, options.wording)
        raise InputError(
            f"{source.name} edits images and draws none: pass a text-to-image generator, and this "
            f"one as {option('editor')}."
        )
    second = _load_source(editor, replace(options, form="edit"))
    if not isinstance(second, ImageEditor):
        raise InputError(f"{second.name} does not edit images; leave out {option('editor')}.")
    if not isinstance(source, TextToImage):
        raise InputError(
            f"{source.name} cannot draw the image that {second.name} edits: pass a text-to-image "
            "generator."
        )
    return EditedPairs(source, second, options.wording)


def _load_source(
    generator: str | Callable[..., Any] | PairGenerator, options: GeneratorOptions
) -> PairGenerator | TextToImage | ImageEditor:
    if isinstance(generator, str):
        return _load_named(generator, options)
    if isinstance(generator, PairGenerator | TextToImage | ImageEditor):
        return generator
    if not callable(generator):
        raise InputError(f"a generator is a name or a callable, found {type(generator).__name__}.")
    from contrapose.build.edits.callables import wrap_callable

    return wrap_callable(generator, options)


def _load_named(name: str, options: GeneratorOptions) -> PairGenerator | TextToImage | ImageEditor:
    prefix, colon, rest = name.partition(":")
    if name == "scenes":
        from contrapose.build.edits.scenes import SceneDrawer

        return SceneDrawer()
    if prefix == "diffusers" and rest:
        from contrapose.build.edits.diffusion import load_pipeline, plan_pipeline

        if options.plan:
            return plan_pipeline(rest, options.wording)
        return load_pipeline(rest, options.device, options.wording)
    if colon and prefix in ("http", "https", "openai"):
        from contrapose.build.edits.endpoint import load_endpoint

        return load_endpoint(name, options.workers)
    raise InputError(
        f"there is no generator {name!r}: write diffusers:FOLDER_OR_ID, http://…, "
        "openai:MODEL,url=… or scenes."
    )
