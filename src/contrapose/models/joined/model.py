"""Dual encoder of two joined encoders with one head per side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models.capabilities import (
    CardProvider,
    Encoder,
    ImagePreparer,
    ModelCard,
    TokenCounter,
)
from contrapose.models.exact import exact_inference
from contrapose.models.joined.encoders import HFImageEncoder, HFTextEncoder, TimmImageEncoder
from contrapose.models.joined.spec import HEADS, SPEC, JoinedSpec, Side, apply_head, read_joined
from contrapose.models.masking.images import ImageNormalizer
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import ImageLike, PreparedImage


def load_dual_encoder(source: str, folder: Path, options: LoadOptions) -> Any:
    """Load the dual encoder that a `joined.json` names.

    Raises:
        InputError: it is that folder itself, or it gives no vectors that a head could take.
    """
    from contrapose.models.registry import load_model

    if Path(source).expanduser().resolve() == folder.resolve():
        raise InputError("names itself as its encoder.", file=folder)
    return require_dual_encoder(
        load_model(
            source,
            device=options.device,
            dtype=options.dtype,
            cut=options.cut,
            trust_remote_code=options.trust_remote_code,
        )
    )


def require_dual_encoder(model: Any) -> Any:
    """Return the model if it is a dual encoder that a head can be put on.

    Raises:
        InputError: it gives no vectors, or several of an image.
    """
    if not isinstance(model, Encoder):
        raise InputError(f"{model.name} gives no vectors of images and captions: it has no itc.")
    if getattr(model, "pool", None):
        raise InputError(f"{model.name} gives several vectors of an image, and a head takes one.")
    if not (isinstance(model, ImagePreparer) and isinstance(model, TokenCounter)):
        raise InputError(
            f"{model.name} does not say how it prepares images and counts tokens, which heads need."
        )
    return model


class ModelImageEncoder:
    """Image side of a dual encoder.

    Attributes:
        model: whose vectors are taken.
        fingerprint: the model's.
        preprocessing: what happens to an image, in words.
        parameters: number of weights, where the model says so.
    """

    def __init__(self, model: Any):
        self.model = model
        self.fingerprint: str = model.fingerprint
        card = model.card if isinstance(model, CardProvider) else None
        self.preprocessing = f"as {model.name} does" if card is None else card.preprocessing
        self.parameters = 0 if card is None else card.parameters

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess one image."""
        found: PreparedImage = self.model.prepare_image(image)
        return found

    def normalise(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image where the model leaves that for later."""
        return self.model.normalize_image(prepared) if self._later else prepared

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization."""
        found: tuple[float, ...] | None = getattr(self.model, "pixel_mean", None)
        return found

    def features(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        found: Tensor = self.model.embed_images(images)
        return found

    @property
    def _later(self) -> bool:
        return isinstance(self.model, ImageNormalizer)


class ModelTextEncoder:
    """Text side of a dual encoder.

    Attributes:
        model: whose vectors are taken.
        fingerprint: the model's.
        pool: nothing is pooled here.
        masks: how the model can hide words.
        parameters: number of weights, where the model says so.
    """

    pool = "model"

    def __init__(self, model: Any):
        self.model = model
        self.fingerprint: str = model.fingerprint
        self.masks: tuple[Any, ...] = tuple(getattr(model, "text_masks", ()))
        self.parameters = model.card.parameters if isinstance(model, CardProvider) else 0

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption."""
        found: int = self.model.context
        return found

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        found: bool = self.model.cuts
        return found

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation."""
        return list(self.model.token_counts(texts))

    def features(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        found: Tensor = self.model.embed_texts(texts)
        return found


ImageSideEncoder = HFImageEncoder | TimmImageEncoder | ModelImageEncoder


class JoinedEncoder:
    """Dual encoder of two joined encoders: score `itc` is the cosine of the head outputs.

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
        self.image, self.text = load_both_encoders(joining, folder, name, options)
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
            notes=(f"{_describe(joining)} in {heads['image.weight'].shape[0]} dimensions",),
        )

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        return project_vectors(self.image.features(images), self._heads, "image", self.name)

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        return project_vectors(self.text.features(texts), self._heads, "text", self.name)

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image; normalization may be left to the device."""
        return self.image.prepare(image)

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self.image.normalise(prepared)

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return self.text.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.text.cuts

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return self.text.counts(texts)

    def _encoders(self) -> int:
        """Number of weights of both encoders; a shared model counts once."""
        models = [getattr(side, "model", None) for side in (self.image, self.text)]
        twice = models[0] is not None and models[0] is models[1]
        return self.image.parameters + (0 if twice else self.text.parameters)


def load_both_encoders(
    joining: JoinedSpec, folder: Path, name: str, options: LoadOptions
) -> tuple[ImageSideEncoder, HFTextEncoder | ModelTextEncoder]:
    """Load both encoders; a shared model is loaded once."""
    image = load_image_encoder(joining, folder, name, options)
    if isinstance(image, ModelImageEncoder) and joining.image == joining.text:
        return image, ModelTextEncoder(image.model)
    return image, load_text_encoder(joining, folder, name, options)


def load_image_encoder(
    joining: JoinedSpec, folder: Path, name: str, options: LoadOptions
) -> ImageSideEncoder:
    """Load the image encoder alone, for training a head."""
    side = joining.image
    if side.kind == "model":
        return ModelImageEncoder(load_dual_encoder(_resolve_source(side, folder), folder, options))
    if side.kind == "hf":
        return HFImageEncoder(side, _resolve_source(side, folder), name, options)
    if side.weights is None:
        raise InputError("names no weights for its timm encoder.", file=folder / SPEC)
    weights = folder / side.weights
    if not weights.is_file():
        raise InputError("there is no such file of weights.", file=weights)
    return TimmImageEncoder(side, weights, name, options)


def load_text_encoder(
    joining: JoinedSpec, folder: Path, name: str, options: LoadOptions
) -> HFTextEncoder | ModelTextEncoder:
    """Load the sentence encoder alone, for training a head."""
    if joining.text.kind == "model":
        return ModelTextEncoder(
            load_dual_encoder(_resolve_source(joining.text, folder), folder, options)
        )
    if joining.text.kind != "hf":
        raise InputError("its text encoder must be of kind hf or model.", file=folder / SPEC)
    return HFTextEncoder(joining.text, _resolve_source(joining.text, folder), name, options)


def project_vectors(vectors: Tensor, heads: Mapping[str, Tensor], side: str, name: str) -> Tensor:
    """Project vectors (n, d) by a side's head to unit length.

    Raises:
        InputError: the head is of another width than the vectors.
    """
    weight = heads[f"{side}.weight"]
    if weight.shape[1] != vectors.shape[1]:
        raise InputError(
            f"the {side} head of {name} takes {weight.shape[1]} numbers and its encoder gives "
            f"{vectors.shape[1]}: it belongs to another encoder."
        )
    return normalize(apply_head(vectors, heads, side), dim=-1)


def _describe(joining: JoinedSpec) -> str:
    image, text = joining.image.source, joining.text.source
    if joining.image.kind == "model" and joining.image == joining.text:
        return f"{image} with a head a side,"
    return f"images by {image}, captions by {text}, joined"


def _resolve_source(side: Side, folder: Path) -> str:
    """Resolve a source to a folder beside the spec, else leave it as a hub id."""
    near = folder / Path(side.source).expanduser()
    return str(near) if near.is_dir() else side.source
