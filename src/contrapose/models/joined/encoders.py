"""Image encoders (transformers, timm) and text encoders (transformers) without heads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL.Image import Image
from torch import Tensor

from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.files import read_json
from contrapose.models.exact import normalize_rows
from contrapose.models.hf import check_torchvision
from contrapose.models.hf.checkpoint import Checkpoint, open_checkpoint
from contrapose.models.hf.inputs import ImageInputs, TextInputs
from contrapose.models.image_transform import ImageTransform, batch_images, torchvision_transform
from contrapose.models.joined import Side
from contrapose.models.masking.embeddings import find_word_embedding, zero_embeddings
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike, PreparedImage
    from contrapose.resize_crop import ResizeCrop


def pool_states(output: Any, how: str, mask: Tensor | None = None) -> Tensor:
    """Pool an encoder's output to vectors (n, d) in float32.

    Args:
        output: of a model of the transformers library.
        how: a `Pool`.
        mask: (n, l) positions that are pooled; default: all.

    Raises:
        InputError: the encoder has no pooler.
    """
    if how == "pooler":
        pooled = getattr(output, "pooler_output", None)
        if pooled is None:
            raise InputError("the encoder has no pooler: choose another pool in joined.json.")
        return torch.as_tensor(pooled).float().flatten(1)
    states: Tensor = output.last_hidden_state.float()
    if states.ndim == 4:  # feature map of a convolutional network
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
    positions = torch.arange(mask.shape[1], device=mask.device)
    last = torch.where(mask.bool(), positions, -1).amax(dim=1)
    return states[torch.arange(len(states), device=states.device), last]


_VISION_CLASSES = {
    "clip": "CLIPVisionModel",
    "siglip": "SiglipVisionModel",
    "altclip": "AltCLIPVisionModel",
    "align": "AlignVisionModel",
    "blip": "BlipVisionModel",
    "flava": "FlavaImageModel",
}
"""Vision classes of dual models, by model type."""


class HFImageEncoder:
    """Image encoder of the transformers library, without a head.

    Attributes:
        fingerprint: hash of its files.
        parameters: number of parameters.
    """

    def __init__(self, side: Side, source: str, name: str, options: LoadOptions):
        import transformers

        checkpoint = open_checkpoint(source, side.revision, name, options)
        dual = checkpoint.config.model_type in _VISION_CLASSES
        self._pool = side.pool or ("pooler" if dual else "first")
        self._normalize = side.normalise
        self._options = options
        kind = getattr(transformers, _VISION_CLASSES.get(checkpoint.config.model_type, "AutoModel"))
        unused = () if self._pool == "pooler" else ("pooler.", "vision_model.head.")
        self._network: Any = checkpoint.model(kind, unneeded=unused)
        self._image_inputs = ImageInputs(checkpoint.image_processor())
        self.preprocessing = self._image_inputs.describe()
        self.fingerprint = checkpoint.fingerprint
        self.parameters: int = self._network.num_parameters()

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess one image; normalization may be left to the device."""
        return self._image_inputs.prepare(image)

    @property
    def resize_crop(self) -> ResizeCrop | None:
        """Resize and crop that prepare an image, where these are all."""
        steps = self._image_inputs.steps
        return None if steps is None else steps.resize_crop

    def normalize(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self._image_inputs.normalize(prepared)

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization."""
        return self._image_inputs.mean

    def features(self, images: Sequence[ImageLike]) -> Tensor:
        """Vectors (n, d) in float32."""
        device, dtype = self._options.device, self._options.torch_dtype
        vectors = pool_states(
            self._network(**self._image_inputs.stack(images, device, dtype)), self._pool
        )
        return normalize_rows(vectors) if self._normalize else vectors


class TimmImageEncoder:
    """Image encoder of timm, without classifier and head.

    Attributes:
        fingerprint: hash of its weights and architecture.
        parameters: number of parameters.
    """

    def __init__(self, side: Side, weights: Path, name: str, options: LoadOptions):
        check_torchvision(name)
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
        self._normalize = side.normalise
        self._options = options
        self._steps = _timm_transform(resolved.resolve_model_data_config(network), side.source)
        self.preprocessing = self._steps.describe()
        self.fingerprint = fingerprint([weights], model=side.source, dtype=options.dtype)
        self.parameters = sum(weight.numel() for weight in network.parameters())

    def prepare(self, image: Image) -> Tensor:
        """Preprocess one image; normalization is left to the device."""
        return self._steps.resize_to_bytes(image)

    @property
    def resize_crop(self) -> ResizeCrop:
        """Resize and crop that prepare an image."""
        return self._steps.resize_crop

    def normalize(self, prepared: Any) -> Tensor:
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
        return normalize_rows(vectors) if self._normalize else vectors


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
        keys = network.load_state_dict(weights, strict=False)
    except Exception as error:
        raise InputError(
            f"the weights cannot be loaded ({first_line(error)}).", file=file
        ) from None
    if keys.missing_keys:
        raise InputError(f"the weights lack {keys.missing_keys[0]!r}.", file=file)
    strange = [key for key in keys.unexpected_keys if not key.startswith(("head", "fc", "class"))]
    if strange:
        raise InputError(f"the weights are of another model: {strange[0]!r}.", file=file)


def _timm_transform(config: Any, source: str) -> ImageTransform:
    _, height, width = config["input_size"]
    steps = torchvision_transform(config, (height, width), crop_share=config["crop_pct"])
    if steps is None or config["crop_mode"] != "center":
        raise InputError(f"{source} of timm prepares images in a way that is not known here.")
    return steps


OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Model types whose position ids count only tokens that are not padding."""
_POOLING_MODES = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}


class HFTextEncoder:
    """Text encoder of the transformers library, without a head.

    Attributes:
        text_inputs: tokenizer with its limits.
        pool: pooling of its output.
        fingerprint: hash of its files.
        parameters: number of parameters.
        masks: supported kinds of masking.
    """

    def __init__(self, side: Side, source: str, name: str, options: LoadOptions):
        from transformers import AutoModel, AutoModelForTextEncoding

        checkpoint = open_checkpoint(source, side.revision, name, options)
        folder = Path(checkpoint.source)
        self.pool = side.pool or read_sentence_pooling(folder) or "mean"
        self._normalize = side.normalise
        self._device = options.device
        decodes = getattr(checkpoint.config, "is_encoder_decoder", False)
        kind: Any = AutoModelForTextEncoding if decodes else AutoModel
        unused = () if self.pool == "pooler" else ("pooler.",)
        self._network: Any = checkpoint.model(kind, unneeded=unused)
        tokenizer = checkpoint.tokenizer()
        self.text_inputs = TextInputs(
            name,
            tokenizer,
            _find_context(checkpoint, tokenizer),
            cut=options.cut,
            padding="longest",
            shifts=checkpoint.config.model_type in OFFSET_POSITIONS,
        )
        self._word_embedding = find_word_embedding(self._network)
        self.masks = self.text_inputs.masks if self._word_embedding is not None else ()
        self.fingerprint = checkpoint.fingerprint
        self.parameters: int = self._network.num_parameters()

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return self.text_inputs.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.text_inputs.cut

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return self.text_inputs.counts(texts)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        return self.text_inputs.token_ids(texts)

    def features(self, texts: Sequence[str]) -> Tensor:
        """Vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        tokens = self.text_inputs.tensors(texts, self._device)
        with zero_embeddings(self._word_embedding, self.text_inputs.zero_flags(texts, tokens)):
            output = self._network(**tokens)
        vectors = pool_states(output, self.pool, tokens.get("attention_mask"))
        return normalize_rows(vectors) if self._normalize else vectors


def read_sentence_pooling(folder: Path) -> str:
    """Pooling mode of a sentence-transformers folder; empty where it is none.

    Raises:
        InputError: it does something that is not known here.
    """
    if not (folder / "modules.json").is_file():
        return ""
    try:
        modules = read_json(folder / "modules.json")
        kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
        strange = kinds.keys() - {"Transformer", "Pooling", "Normalize"}
        if strange:
            raise InputError(
                f"has a module {sorted(strange)[0]!r}, which joined encoders cannot have: use an "
                "encoder of transformer and pooling alone.",
                file=folder,
            )
        config = dict(read_json(folder / kinds["Pooling"] / "config.json"))
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
    return [flags.get(mode, mode) for mode in on if mode in flags or mode == "lasttoken"]


def _find_context(checkpoint: Checkpoint, tokenizer: Any) -> int:
    """Context length: the least that sentence-transformers, tokenizer and network state."""
    config, limits = checkpoint.config, [int(tokenizer.model_max_length)]
    positions = getattr(config, "max_position_embeddings", None)
    if positions:
        shifted = config.model_type in OFFSET_POSITIONS
        limits.append(positions - (2 if shifted else 0))
    file = Path(checkpoint.source) / "sentence_bert_config.json"
    if file.is_file():
        stated = read_json(file)
        stated = stated.get("max_seq_length") if isinstance(stated, dict) else None
        if isinstance(stated, int) and stated > 0:
            limits.append(stated)
    return min(limits)
