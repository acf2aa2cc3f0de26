"""The image side: any image encoder of the transformers library or of timm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL.Image import Image, Resampling
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError, MissingExtraError
from contrapose.models.fingerprint import fingerprint
from contrapose.models.hf.checkpoint import open_checkpoint
from contrapose.models.hf.inputs import Pictures
from contrapose.models.joined.pool import pooled
from contrapose.models.joined.spec import Side
from contrapose.models.options import LoadOptions
from contrapose.models.pixels import Steps, batched

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture, Prepared

_WHOLE = {
    "clip": "CLIPVisionModel",
    "siglip": "SiglipVisionModel",
    "altclip": "AltCLIPVisionModel",
    "align": "AlignVisionModel",
    "blip": "BlipVisionModel",
    "flava": "FlavaImageModel",
}
"""Models of both sides, whose image side alone is taken."""
_FILTERS = {"bicubic": Resampling.BICUBIC, "bilinear": Resampling.BILINEAR}


class HfImageSide:
    """Images become the vectors of an encoder of the transformers library, before any head.

    Attributes:
        fingerprint: of all its files.
        parameters: number of weights.
    """

    def __init__(self, side: Side, source: str, name: str, options: LoadOptions):
        import transformers

        checkpoint = open_checkpoint(source, side.revision, name, options)
        both = checkpoint.config.model_type in _WHOLE
        self._pool = side.pool or ("pooler" if both else "first")
        self._normalise = side.normalise
        self._options = options
        kind = getattr(transformers, _WHOLE.get(checkpoint.config.model_type, "AutoModel"))
        unused = () if self._pool == "pooler" else ("pooler.", "vision_model.head.")
        self._network: Any = checkpoint.model(kind, unneeded=unused)
        self._pictures = Pictures(checkpoint.image_processor())
        self.preprocessing = self._pictures.in_words()
        self.fingerprint = checkpoint.fingerprint
        self.parameters: int = self._network.num_parameters()

    def prepare(self, image: Image) -> Prepared:
        """One image as the network takes it, but for normalising."""
        return self._pictures.prepare(image)

    def normalise(self, prepared: Prepared) -> Prepared:
        """A prepared image, normalised."""
        return self._pictures.normalise(prepared)

    @property
    def mean(self) -> tuple[float, ...] | None:
        """The colour that is zero for the network."""
        return self._pictures.mean

    def features(self, images: Sequence[Picture]) -> Tensor:
        """Vectors (n, d) in float32."""
        device, dtype = self._options.device, self._options.torch_dtype
        vectors = pooled(self._network(**self._pictures.stack(images, device, dtype)), self._pool)
        return normalize(vectors, dim=-1) if self._normalise else vectors


class TimmImageSide:
    """Images become the vectors of a timm model without its classifier, before any head.

    Attributes:
        fingerprint: of its weights and its architecture's name.
        parameters: number of weights.
    """

    def __init__(self, side: Side, weights: Path, name: str, options: LoadOptions):
        try:
            import timm
            from timm import data
        except ImportError as error:
            missing = "timm" if error.name in (None, "timm") else str(error.name)
            raise MissingExtraError(missing, "openclip", f"The model {name}") from None
        library: Any = timm
        resolved: Any = data
        if side.source not in library.list_models():
            raise InputError(f"{name}: timm has no model {side.source!r}.")
        network = library.create_model(side.source, pretrained=False, num_classes=0)
        _fill(network, weights)
        self._network: Any = network.to(options.device, options.torch_dtype).eval()
        self._network.requires_grad_(False)
        self._normalise = side.normalise
        self._options = options
        self._steps = _steps(resolved.resolve_model_data_config(network), side.source)
        self.preprocessing = self._steps.in_words()
        self.fingerprint = fingerprint([weights], model=side.source, dtype=options.dtype)
        self.parameters = sum(weight.numel() for weight in network.parameters())

    def prepare(self, image: Image) -> Tensor:
        """One image as the network takes it, but for normalising."""
        return self._steps.bytes_of(image)

    def normalise(self, prepared: Any) -> Tensor:
        """A prepared image, normalised."""
        return prepared if prepared.is_floating_point() else self._steps.normalised(prepared)

    @property
    def mean(self) -> tuple[float, ...] | None:
        """The colour that is zero for the network."""
        return self._steps.mean

    def features(self, images: Sequence[Picture]) -> Tensor:
        """Vectors (n, d) in float32."""
        rows: list[Any] = [
            self.prepare(image) if isinstance(image, Image) else image for image in images
        ]
        pixels = batched(rows, self._steps, self._options.device, self._options.torch_dtype)
        vectors = self._network(pixels).float()
        return normalize(vectors, dim=-1) if self._normalise else vectors


def _fill(network: Any, file: Path) -> None:
    """Load weights, all of them but the classifier's, without unpickling code."""
    import torch
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            weights = load_file(file)
        else:
            weights = torch.load(file, map_location="cpu", weights_only=True)
            weights = weights.get("state_dict", weights.get("model", weights))
        found = network.load_state_dict(weights, strict=False)
    except Exception as error:
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(f"the weights cannot be loaded ({first}).", file=file) from None
    if found.missing_keys:
        raise InputError(f"the weights lack {found.missing_keys[0]!r}.", file=file)
    strange = [key for key in found.unexpected_keys if not key.startswith(("head", "fc", "class"))]
    if strange:
        raise InputError(f"the weights are of another model: {strange[0]!r}.", file=file)


def _steps(config: Any, source: str) -> Steps:
    _, height, width = config["input_size"]
    usual = config["crop_mode"] == "center" and height == width
    if not usual or config["interpolation"] not in _FILTERS:
        raise InputError(f"{source} of timm prepares images in a way that is not known here.")
    return Steps(
        resize=math.floor(height / config["crop_pct"]),
        crop=(height, width),
        resample=_FILTERS[config["interpolation"]],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        even=True,
    )
