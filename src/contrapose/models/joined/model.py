"""Two encoders that never met, joined by one map a side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard
from contrapose.models.fingerprint import fingerprint
from contrapose.models.joined.image import HfImageSide, TimmImageSide
from contrapose.models.joined.maps import through
from contrapose.models.joined.spec import HEADS, SPEC, Joining, Side, read_joined
from contrapose.models.joined.text import TextSide
from contrapose.models.joined.whole import WholeImages, WholeTexts, load_whole
from contrapose.models.options import LoadOptions
from contrapose.models.precise import precise

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import Picture, Prepared

ImageSide = HfImageSide | TimmImageSide | WholeImages


class Joined:
    """A dual encoder: the vector of each side through its map, compared by their cosine (`itc`).

    The maps are applied in float32, whatever the encoders compute in.

    Attributes:
        name: as the user would type it.
        fingerprint: of both encoders and the heads.
        batch_size: how many to give at once.
        image: the image encoder, without its head.
        text: the sentence encoder, without its head.
        card: what a user should know.
        text_masks: how it can hide words.
        pixel_mean: the colour that is zero for the image encoder.
    """

    def __init__(self, folder: Path, name: str, options: LoadOptions):
        joining, heads = read_joined(folder)
        self.name = name
        self.batch_size = 64
        self.image, self.text = both_sides(joining, folder, name, options)
        self._heads = {key: head.to(options.device) for key, head in heads.items()}
        self.text_masks = self.text.masks
        self.pixel_mean = self.image.mean
        self.fingerprint = fingerprint(
            [folder / SPEC, folder / HEADS],
            image=self.image.fingerprint,
            text=self.text.fingerprint,
            pool=self.text.pool,
            dtype=options.dtype,
            cut=options.cut,
        )
        self.card = ModelCard(
            family="joined encoders",
            parameters=self._encoders() + sum(head.numel() for head in heads.values()),
            dtype=options.dtype,
            preprocessing=self.image.preprocessing,
            context=self.context,
            notes=(f"{_said(joining)} in {heads['image.weight'].shape[0]} dimensions",),
        )

    @precise
    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        return mapped(self.image.features(images), self._heads, "image", self.name)

    @precise
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        return mapped(self.text.features(texts), self._heads, "text", self.name)

    def prepare_image(self, image: Image) -> Prepared:
        """An image as the encoder takes it, but for normalising."""
        return self.image.prepare(image)

    def normalise_image(self, prepared: Prepared) -> Prepared:
        """A prepared image, normalised."""
        return self.image.normalise(prepared)

    @property
    def context(self) -> int:
        """Most tokens of a caption, with start and end."""
        return self.text.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self.text.cuts

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with start and end."""
        return self.text.counts(texts)

    def _encoders(self) -> int:
        """Weights of both encoders; of a model that is both, once."""
        models = [getattr(side, "model", None) for side in (self.image, self.text)]
        twice = models[0] is not None and models[0] is models[1]
        return self.image.parameters + (0 if twice else self.text.parameters)


def both_sides(
    joining: Joining, folder: Path, name: str, options: LoadOptions
) -> tuple[ImageSide, TextSide | WholeTexts]:
    """Both encoders; a model that is both is loaded once."""
    image = image_side(joining, folder, name, options)
    if isinstance(image, WholeImages) and joining.image == joining.text:
        return image, WholeTexts(image.model)
    return image, text_side(joining, folder, name, options)


def image_side(joining: Joining, folder: Path, name: str, options: LoadOptions) -> ImageSide:
    """The image encoder alone, as training a head needs it."""
    side = joining.image
    if side.kind == "model":
        return WholeImages(load_whole(_source(side, folder), folder, options))
    if side.kind == "hf":
        return HfImageSide(side, _source(side, folder), name, options)
    if side.weights is None:
        raise InputError("names no weights for its timm encoder.", file=folder / SPEC)
    weights = folder / side.weights
    if not weights.is_file():
        raise InputError("there is no such file of weights.", file=weights)
    return TimmImageSide(side, weights, name, options)


def text_side(
    joining: Joining, folder: Path, name: str, options: LoadOptions
) -> TextSide | WholeTexts:
    """The sentence encoder alone, as training a head needs it."""
    if joining.text.kind == "model":
        return WholeTexts(load_whole(_source(joining.text, folder), folder, options))
    if joining.text.kind != "hf":
        raise InputError("its text encoder must be of kind hf or model.", file=folder / SPEC)
    return TextSide(joining.text, _source(joining.text, folder), name, options)


def mapped(vectors: Tensor, heads: Mapping[str, Tensor], side: str, name: str) -> Tensor:
    """Vectors (n, d) through the head of a side, at unit length.

    Raises:
        InputError: the head is of another width than the vectors.
    """
    weight = heads[f"{side}.weight"]
    if weight.shape[1] != vectors.shape[1]:
        raise InputError(
            f"the {side} head of {name} takes {weight.shape[1]} numbers and its encoder gives "
            f"{vectors.shape[1]}: it belongs to another encoder."
        )
    return normalize(through(vectors, heads, side), dim=-1)


def _said(joining: Joining) -> str:
    image, text = joining.image.source, joining.text.source
    if joining.image.kind == "model" and joining.image == joining.text:
        return f"{image} with a head a side,"
    return f"images by {image}, captions by {text}, joined"


def _source(side: Side, folder: Path) -> str:
    """A folder from the joined one, where there is one; otherwise an id on the hub."""
    near = folder / Path(side.source).expanduser()
    return str(near) if near.is_dir() else side.source
