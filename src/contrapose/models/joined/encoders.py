"""Image encoders (transformers, timm) and text encoders (transformers) without heads."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL.Image import Image, Resampling
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError, MissingExtraError
from contrapose.models.hf.checkpoint import Checkpoint, open_checkpoint
from contrapose.models.hf.inputs import ImageInputs, TextInputs
from contrapose.models.image_transform import ImageTransform, batch_images
from contrapose.models.joined.spec import Side
from contrapose.models.masking.embeddings import find_word_embedding, zero_embeddings
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike, PreparedImage


def pool_states(output: Any, how: str, mask: Tensor | None = None) -> Tensor:
    """Pool an encoder's output to vectors (n, d) in float32.

    Args:
        output: of a model of the transformers library.
        how: see `Pool`.
        mask: (n, l) which places count; all when left out.

    Raises:
        InputError: the encoder has no pooler.
    """
    if how == "pooler":
        found = getattr(output, "pooler_output", None)
        if found is None:
            raise InputError("the encoder has no pooler: choose another pool in joined.json.")
        return torch.as_tensor(found).float().flatten(1)
    states: Tensor = output.last_hidden_state.float()
    if states.ndim == 4:  # a map of a convolutional network
        states = states.flatten(2).transpose(1, 2)
    if mask is None:
        mask = torch.ones(states.shape[:2], device=states.device)
    if how == "first":
        return states[:, 0]
    weights = mask.to(states.dtype).unsqueeze(2)
    if how == "mean":
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
    if how == "max":
        return states.masked_fill(weights == 0, -torch.inf).amax(dim=1)
    places = torch.arange(mask.shape[1], device=mask.device)
    last = torch.where(mask.bool(), places, -1).amax(dim=1)
    return states[torch.arange(len(states), device=states.device), last]


_VISION_CLASSES = {
    "clip": "CLIPVisionModel",
    "siglip": "SiglipVisionModel",
    "altclip": "AltCLIPVisionModel",
    "align": "AlignVisionModel",
    "blip": "BlipVisionModel",
    "flava": "FlavaImageModel",
}
"""Models of both sides, whose image side alone is taken."""
_FILTERS = {"bicubic": Resampling.BICUBIC, "bilinear": Resampling.BILINEAR}


class HFImageEncoder:
    """Image encoder of the transformers library, without a head.

    Attributes:
        fingerprint: of all its files.
        parameters: number of weights.
    """

    def __init__(self, side: Side, source: str, name: str, options: LoadOptions):
        import transformers

        checkpoint = open_checkpoint(source, side.revision, name, options)
        both = checkpoint.config.model_type in _VISION_CLASSES
        self._pool = side.pool or ("pooler" if both else "first")
        self._normalise = side.normalise
        self._options = options
        kind = getattr(transformers, _VISION_CLASSES.get(checkpoint.config.model_type, "AutoModel"))
        unused = () if self._pool == "pooler" else ("pooler.", "vision_model.head.")
        self._network: Any = checkpoint.model(kind, unneeded=unused)
        self._pictures = ImageInputs(checkpoint.image_processor())
        self.preprocessing = self._pictures.in_words()
        self.fingerprint = checkpoint.fingerprint
        self.parameters: int = self._network.num_parameters()

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess one image; normalization may be left to the device."""
        return self._pictures.prepare(image)

    def normalise(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self._pictures.normalise(prepared)

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization."""
        return self._pictures.mean

    def features(self, images: Sequence[ImageLike]) -> Tensor:
        """Vectors (n, d) in float32."""
        device, dtype = self._options.device, self._options.torch_dtype
        vectors = pool_states(
            self._network(**self._pictures.stack(images, device, dtype)), self._pool
        )
        return normalize(vectors, dim=-1) if self._normalise else vectors


class TimmImageEncoder:
    """Image encoder of timm, without classifier and head.

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
        _load_weights(network, weights)
        self._network: Any = network.to(options.device, options.torch_dtype).eval()
        self._network.requires_grad_(False)
        self._normalise = side.normalise
        self._options = options
        self._steps = _build_timm_transform(
            resolved.resolve_model_data_config(network), side.source
        )
        self.preprocessing = self._steps.in_words()
        self.fingerprint = fingerprint([weights], model=side.source, dtype=options.dtype)
        self.parameters = sum(weight.numel() for weight in network.parameters())

    def prepare(self, image: Image) -> Tensor:
        """Preprocess one image; normalization is left to the device."""
        return self._steps.resize_to_bytes(image)

    def normalise(self, prepared: Any) -> Tensor:
        """Normalize a prepared image."""
        return prepared if prepared.is_floating_point() else self._steps.normalize_bytes(prepared)

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization."""
        return self._steps.mean

    def features(self, images: Sequence[ImageLike]) -> Tensor:
        """Vectors (n, d) in float32."""
        rows: list[Any] = [
            self.prepare(image) if isinstance(image, Image) else image for image in images
        ]
        pixels = batch_images(rows, self._steps, self._options.device, self._options.torch_dtype)
        vectors = self._network(pixels).float()
        return normalize(vectors, dim=-1) if self._normalise else vectors


def _load_weights(network: Any, file: Path) -> None:
    """Load all weights but the classifier's, without unpickling code."""
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


def _build_timm_transform(config: Any, source: str) -> ImageTransform:
    _, height, width = config["input_size"]
    usual = config["crop_mode"] == "center" and height == width
    if not usual or config["interpolation"] not in _FILTERS:
        raise InputError(f"{source} of timm prepares images in a way that is not known here.")
    return ImageTransform(
        resize=math.floor(height / config["crop_pct"]),
        crop=(height, width),
        resample=_FILTERS[config["interpolation"]],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        even=True,
    )


OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Encoders that count places by the tokens that are no padding, from behind the padding's."""
_POOLING_MODES = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}


class HFTextEncoder:
    """Text encoder of the transformers library, without a head.

    Attributes:
        captions: its tokeniser with its limits.
        pool: what of its output is its vector.
        fingerprint: of all its files.
        parameters: number of weights.
        masks: how it can hide words.
    """

    def __init__(self, side: Side, source: str, name: str, options: LoadOptions):
        from transformers import AutoModel, AutoModelForTextEncoding

        checkpoint = open_checkpoint(source, side.revision, name, options)
        folder = Path(checkpoint.source)
        self.pool = side.pool or read_sentence_pooling(folder) or "mean"
        self._normalise = side.normalise
        self._device = options.device
        whole = getattr(checkpoint.config, "is_encoder_decoder", False)
        kind: Any = AutoModelForTextEncoding if whole else AutoModel
        unused = () if self.pool == "pooler" else ("pooler.",)
        self._network: Any = checkpoint.model(kind, unneeded=unused)
        tokenizer = checkpoint.tokenizer()
        self.captions = TextInputs(
            name,
            tokenizer,
            _find_context(checkpoint, tokenizer),
            cut=options.cut,
            padding="longest",
            shifts=checkpoint.config.model_type in OFFSET_POSITIONS,
        )
        self._words = find_word_embedding(self._network)
        self.masks = self.captions.masks if self._words is not None else ()
        self.fingerprint = checkpoint.fingerprint
        self.parameters: int = self._network.num_parameters()

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return self.captions.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.captions.cut

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return self.captions.counts(texts)

    def features(self, texts: Sequence[str]) -> Tensor:
        """Vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        tokens = self.captions.tensors(texts, self._device)
        with zero_embeddings(self._words, self.captions.zeros(texts, tokens)):
            found = self._network(**tokens)
        vectors = pool_states(found, self.pool, tokens.get("attention_mask"))
        return normalize(vectors, dim=-1) if self._normalise else vectors


def read_sentence_pooling(folder: Path) -> str:
    """Pooling mode of a sentence-transformers folder; empty where it is none.

    Raises:
        InputError: it does something that is not known here.
    """
    if not (folder / "modules.json").is_file():
        return ""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        kinds = {str(each["type"]).rpartition(".")[2]: str(each["path"]) for each in modules}
        strange = kinds.keys() - {"Transformer", "Pooling", "Normalize"}
        if strange:
            raise InputError(
                f"has a module {sorted(strange)[0]!r}, which joined encoders cannot have: use an "
                "encoder of transformer and pooling alone.",
                file=folder,
            )
        config = json.loads((folder / kinds["Pooling"] / "config.json").read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"its sentence pooling cannot be read ({error}).", file=folder) from None
    modes = [config["pooling_mode"]] if "pooling_mode" in config else _read_legacy_modes(config)
    if len(modes) != 1 or modes[0] not in _POOLING_MODES:
        raise InputError(f"pools by {', '.join(modes)}, which is not known here.", file=folder)
    return _POOLING_MODES[modes[0]]


def _read_legacy_modes(config: dict[str, Any]) -> list[str]:
    """Pooling modes set by legacy flags such as `pooling_mode_mean_tokens`."""
    on = [key.removeprefix("pooling_mode_") for key, value in config.items() if value is True]
    flags = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
    return [flags.get(each, each) for each in on if each in flags or each == "lasttoken"]


def _find_context(checkpoint: Checkpoint, tokenizer: Any) -> int:
    """Context length: the least that sentence-transformers, tokenizer and network state."""
    config, limits = checkpoint.config, [int(tokenizer.model_max_length)]
    places = getattr(config, "max_position_embeddings", None)
    if places:
        shifted = config.model_type in OFFSET_POSITIONS
        limits.append(places - (2 if shifted else 0))
    file = Path(checkpoint.source) / "sentence_bert_config.json"
    if file.is_file():
        stated = json.loads(file.read_text(encoding="utf-8")).get("max_seq_length")
        if stated:
            limits.append(int(stated))
    return min(limits)
