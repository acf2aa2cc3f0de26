"""Dual encoder of two joined encoders with one head per side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from contrapose.errors import InputError, option
from contrapose.files import require_regular
from contrapose.models.capabilities import (
    CardProvider,
    CropPreparer,
    Encoder,
    ImagePreparer,
    ModelCard,
    TokenCounter,
)
from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.joined import SPEC, JoinedSpec, Side, apply_head, head_space
from contrapose.models.joined.encoders import HFImageEncoder, HFTextEncoder, TimmImageEncoder
from contrapose.models.masking.images import ImageNormalizer
from contrapose.models.names import fingerprint, parse_name
from contrapose.models.options import LoadOptions
from contrapose.models.sides import require_side, vector_space

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import ImageLike, PreparedImage
    from contrapose.resize_crop import ResizeCrop


def load_dual_encoder(source: str, folder: Path, options: LoadOptions, sides: Sequence[str]) -> Any:
    """Load the encoder of both sides, or of one, that a `joined.json` names.

    Raises:
        InputError: it is that folder itself, code that the user did not trust, or no encoder of
            these sides that a head can be put on.
    """
    from contrapose.models.registry import load_model, model_names

    if Path(source).expanduser().resolve() == folder.resolve():
        raise InputError("names itself as its encoder.", file=folder)
    if not options.trust_remote_code and parse_name(source, model_names()).scheme == "python":
        raise InputError(
            f"names the code {source!r} as its encoder: pass {option('trust_remote_code', True)} "
            "if you trust it.",
            file=folder / SPEC,
        )
    return require_dual_encoder(
        load_model(
            source,
            device=options.device,
            dtype=options.dtype,
            cut=options.cut,
            trust_remote_code=options.trust_remote_code,
        ),
        sides,
    )


def require_dual_encoder(model: Any, sides: Sequence[str] = ("image", "text")) -> Any:
    """Return the model if it is an encoder of these sides that a head can be put on.

    Raises:
        InputError: it has no vectors of a side, or several per image.
    """
    if not isinstance(model, Encoder):
        raise InputError(f"{model.name} gives no vectors of images and captions: it has no itc.")
    if getattr(model, "pool", None):
        raise InputError(f"{model.name} gives several vectors of an image, and a head takes one.")
    for side in sides:
        require_side(model, side)
    prepares = isinstance(model, ImagePreparer) or "image" not in sides
    if not (prepares and (isinstance(model, TokenCounter) or "text" not in sides)):
        raise InputError(
            f"{model.name} does not say how it prepares images and counts tokens, which heads need."
        )
    return model


class ModelImageEncoder:
    """Image side of a dual encoder.

    Attributes:
        model: the dual encoder.
        fingerprint: of the model.
        preprocessing: description of the image preprocessing.
        parameters: number of parameters, where the model states it; else 0.
    """

    def __init__(self, model: Any):
        self.model = model
        self.fingerprint: str = model.fingerprint
        card = model.card if isinstance(model, CardProvider) else None
        self.preprocessing = f"as {model.name} does" if card is None else card.preprocessing
        self.parameters = 0 if card is None else card.parameters

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess one image."""
        prepared: PreparedImage = self.model.prepare_image(image)
        return prepared

    @property
    def resize_crop(self) -> ResizeCrop | None:
        """Resize and crop that prepare an image, where these are all."""
        return self.model.resize_crop if isinstance(self.model, CropPreparer) else None

    def normalize(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image where `prepare` does not."""
        if isinstance(self.model, ImageNormalizer):
            return self.model.normalize_image(prepared)
        return prepared

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization."""
        mean: tuple[float, ...] | None = getattr(self.model, "pixel_mean", None)
        return mean

    def features(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        vectors: Tensor = self.model.embed_images(images)
        return vectors


class ModelTextEncoder:
    """Text side of a dual encoder.

    Attributes:
        model: the dual encoder.
        fingerprint: of the model.
        pool: fixed, since the model pools itself.
        masks: supported kinds of masking.
        parameters: number of parameters, where the model states it; else 0.
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
        context: int = self.model.context
        return context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        cuts: bool = self.model.cuts
        return cuts

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation."""
        return list(self.model.token_counts(texts))

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        return [list(row) for row in self.model.token_ids(texts)]

    def features(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        vectors: Tensor = self.model.embed_texts(texts)
        return vectors


ImageSideEncoder = HFImageEncoder | TimmImageEncoder | ModelImageEncoder
TextSideEncoder = HFTextEncoder | ModelTextEncoder


class JoinedEncoder:
    """Dual encoder of two joined encoders: score `itc` is the cosine of the head outputs.

    Heads are applied in float32, whatever the dtype of the encoders. With one encoder alone, only
    its side can be embedded, and without a head a side gives its encoder's vectors.

    Attributes:
        sides: those that can be embedded.
        space: declared, or told by the heads, or that of the model which is the only side.
        name: the canonical model string.
        fingerprint: hash of both encoders and the heads.
        batch_size: default number of images or captions per call.
        image: the image encoder, without its head; None where there is none.
        text: the sentence encoder, without its head; None where there is none.
        card: the model card.
        text_masks: supported kinds of masking.
        pixel_mean: the color that is zero for the image encoder.
    """

    def __init__(
        self,
        spec: JoinedSpec,
        heads: Mapping[str, Tensor],
        name: str,
        options: LoadOptions,
        *,
        folder: Path | None = None,
        files: Sequence[Path] = (),
    ):
        """Load the encoders.

        Args:
            spec: the encoders; paths start at the folder.
            heads: of each side; none for the encoders' vectors.
            name: of the model.
            options: how to load the encoders.
            folder: of `joined.json`; None is the working directory.
            files: files that the fingerprint covers.
        """
        self.name = name
        self.batch_size = 64
        self.sides = spec.sides
        self.image, self.text = load_both_encoders(spec, folder or Path(), name, options)
        self.space = spec.space or ("" if folder is None else head_space(folder))
        alone = self.image if self.text is None else self.text if self.image is None else None
        if not self.space and isinstance(alone, ModelImageEncoder | ModelTextEncoder):
            self.space = vector_space(alone.model)
        self._heads = {key: head.to(options.device) for key, head in heads.items()}
        self.text_masks = () if self.text is None else self.text.masks
        self.pixel_mean = None if self.image is None else self.image.mean
        self.fingerprint = fingerprint(
            list(files),
            image="" if self.image is None else self.image.fingerprint,
            text="" if self.text is None else self.text.fingerprint,
            pool="" if self.text is None else self.text.pool,
            dtype=options.dtype,
            cut=options.cut,
            **({} if files else {"spec": repr(_without_paths(spec))}),
        )
        self.card = ModelCard(
            family="joined encoders",
            parameters=self._encoder_parameters() + sum(head.numel() for head in heads.values()),
            dtype=options.dtype,
            preprocessing="" if self.image is None else self.image.preprocessing,
            context=self.context,
            notes=(_describe(spec, heads),),
        )

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        return project_vectors(self._image.features(images), self._heads, "image", self.name)

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        return project_vectors(self._text.features(texts), self._heads, "text", self.name)

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image; normalization may be left to the device."""
        return self._image.prepare(image)

    @property
    def resize_crop(self) -> ResizeCrop | None:
        """Resize and crop that prepare an image, where these are all."""
        return None if self.image is None else self.image.resize_crop

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self._image.normalize(prepared)

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included; 0 without captions."""
        return 0 if self.text is None else self.text.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.text is not None and self.text.cuts

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return self._text.counts(texts)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        return self._text.token_ids(texts)

    @property
    def _image(self) -> ImageSideEncoder:
        require_side(self, "image")
        return cast("ImageSideEncoder", self.image)

    @property
    def _text(self) -> TextSideEncoder:
        require_side(self, "text")
        return cast("TextSideEncoder", self.text)

    def _encoder_parameters(self) -> int:
        """Number of parameters of all encoders; a shared model counts once."""
        encoders = [side for side in (self.image, self.text) if side is not None]
        counted = {id(getattr(side, "model", side)): side.parameters for side in encoders}
        return sum(counted.values())


def load_both_encoders(
    spec: JoinedSpec, folder: Path, name: str, options: LoadOptions
) -> tuple[ImageSideEncoder | None, TextSideEncoder | None]:
    """Load the encoders that there are; a shared model is loaded once."""
    image = None if spec.image is None else load_image_encoder(spec, folder, name, options)
    if isinstance(image, ModelImageEncoder) and spec.image == spec.text:
        return image, ModelTextEncoder(image.model)
    return image, None if spec.text is None else load_text_encoder(spec, folder, name, options)


def load_image_encoder(
    spec: JoinedSpec, folder: Path, name: str, options: LoadOptions
) -> ImageSideEncoder:
    """Load the image encoder alone, for training a head."""
    side = spec.image
    if side is None:
        raise InputError("names no image encoder.", file=folder / SPEC)
    if side.kind == "model":
        sides = ("image", "text") if side == spec.text else ("image",)
        source = _resolve_source(side, folder)
        return ModelImageEncoder(load_dual_encoder(source, folder, options, sides))
    if side.kind == "hf":
        return HFImageEncoder(side, _resolve_source(side, folder), name, options)
    if side.weights is None:
        raise InputError("names no weights for its timm encoder.", file=folder / SPEC)
    weights = folder / side.weights
    require_regular(weights)
    if not weights.is_file():
        raise InputError("there is no such file of weights.", file=weights)
    return TimmImageEncoder(side, weights, name, options)


def load_text_encoder(
    spec: JoinedSpec, folder: Path, name: str, options: LoadOptions
) -> TextSideEncoder:
    """Load the sentence encoder alone, for training a head."""
    side = spec.text
    if side is None:
        raise InputError("names no text encoder.", file=folder / SPEC)
    if side.kind == "model":
        source = _resolve_source(side, folder)
        return ModelTextEncoder(load_dual_encoder(source, folder, options, ("text",)))
    if side.kind != "hf":
        raise InputError("its text encoder must be of kind hf or model.", file=folder / SPEC)
    return HFTextEncoder(side, _resolve_source(side, folder), name, options)


def project_vectors(vectors: Tensor, heads: Mapping[str, Tensor], side: str, name: str) -> Tensor:
    """Project vectors (n, d) by a side's head to unit length; without one they stay as they are.

    Raises:
        InputError: the head is of another width than the vectors.
    """
    weight = heads.get(f"{side}.weight")
    if weight is None:
        return normalize_rows(vectors)
    if weight.shape[1] != vectors.shape[1]:
        raise InputError(
            f"the {side} head of {name} takes {weight.shape[1]} numbers and its encoder gives "
            f"{vectors.shape[1]}: it belongs to another encoder."
        )
    return normalize_rows(apply_head(vectors, heads, side))


def _describe(spec: JoinedSpec, heads: Mapping[str, Tensor]) -> str:
    if spec.image is None or spec.text is None:
        what = "captions alone" if spec.image is None else "images alone"
        return f"{what}, by {spec.describe()}{' with a head' if heads else ''}"
    image, text = spec.image.source, spec.text.source
    if not heads:
        return f"images by {image}, captions by {text}, without heads"
    width = heads["image.weight"].shape[0]
    if spec.image.kind == "model" and spec.image == spec.text:
        return f"{image} with a head a side, in {width} dimensions"
    return f"images by {image}, captions by {text}, joined in {width} dimensions"


def _without_paths(spec: JoinedSpec) -> tuple[Any, ...]:
    """Options of the encoders that change vectors; their files have fingerprints of their own."""
    return tuple(
        None if side is None else (side.kind, side.pool, side.normalise)
        for side in (spec.image, spec.text)
    )


def _resolve_source(side: Side, folder: Path) -> str:
    """Resolve a source to a folder beside the spec, else leave it as a hub id."""
    near = folder / Path(side.source).expanduser()
    return str(near) if near.is_dir() else side.source
