"""Dual encoders of open_clip: by tag, from the hub, from a folder, or from a weight file.

OpenAI's models, and all that were tuned from them, were trained with QuickGELU. Their weights fit a
network with GELU as well, and silently give worse numbers. The activation is therefore always known
before weights are loaded: from the tag, the configuration beside the weights, or the user.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from PIL.Image import Image
from torch import Tensor, tensor
from torch import bool as bool_

from contrapose.errors import InputError, MissingExtraError, first_line, option
from contrapose.files import did_you_mean, read_json
from contrapose.models.capabilities import ModelCard, check_caption
from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf import check_torchvision
from contrapose.models.image_transform import ImageTransform, batch_images, torchvision_transform
from contrapose.models.masking.embeddings import (
    find_word_embedding,
    make_zero_flags,
    zero_embeddings,
)
from contrapose.models.masking.text import (
    PAD,
    TOKEN_0,
    ZERO,
    MaskedText,
    flag_by_prefix,
    full_caption,
    full_captions,
)
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions
from contrapose.models.quick_gelu import fuse_quick_gelu

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike

ADAPTER = 1
"""Version in the fingerprint: raised when this adapter changes the numbers of the same weights."""
QUICKGELU_SUFFIX = "-quickgelu"
_WEIGHT_FILES = (
    "open_clip_model.safetensors", "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin", "model.safetensors", "pytorch_model.bin",
)  # fmt: skip


def load(body: str, name: str, options: LoadOptions, activation: str | None) -> OpenClip:
    """Load an open_clip model.

    Args:
        body: `MODEL/TAG`, `MODEL/path/to/weights` or `hf-hub:org/name`.
        name: the canonical model string.
        options: load options.
        activation: `gelu` or `quickgelu`, where the user states it.

    Raises:
        InputError: there is no such model, or its activation is not known.
        MissingExtraError: open_clip is not installed.
    """
    library = _import_open_clip(name)
    if body.startswith("hf-hub:"):
        _refuse_activation(name, activation)
        return load_folder(_fetch_repository(body.removeprefix("hf-hub:"), name), name, options)
    model, _, weights = body.partition("/")
    if model not in library.list_models():
        near = did_you_mean(model, library.list_models(), otherwise="see open_clip.list_models().")
        raise InputError(f"open_clip has no model {model!r}: {near}")
    tag = library.get_pretrained_cfg(model, weights)
    if tag:
        _refuse_activation(name, activation)
        file = _download_tag(library, tag, name)
        quick = bool(tag.get("quick_gelu", False))
    else:
        file = _find_weight_file(weights, model, library)
        quick = _is_quick_gelu(library.get_model_config(model), model, activation, file)
    plain = model.removesuffix(QUICKGELU_SUFFIX)
    model = plain if plain in library.list_models() else model
    network = _create_network(library, model, name, options, file=file, quick=quick)
    config = library.get_model_config(model)
    known = _compute_fingerprint([file], config, quick, network, options)
    tokenizer = _load_tokenizer(library, model, name, config, options)
    return OpenClip(name, known, network, tokenizer, options, quick=quick)


def load_folder(folder: Path, name: str, options: LoadOptions) -> OpenClip:
    """Load an open_clip model from a folder with an `open_clip_config.json`.

    Raises:
        InputError: the folder lacks something, is damaged, or asks for its own code to be run
            without the user's `trust_remote_code`.
        MissingExtraError: open_clip is not installed.
    """
    library = _import_open_clip(name)
    try:
        config = read_json(folder / "open_clip_config.json")
        model = dict(config["model_cfg"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"holds no usable open_clip_config.json ({error}).", file=folder) from None
    files = [folder / name for name in _WEIGHT_FILES if (folder / name).is_file()]
    if not files:
        raise InputError("holds no weights (no open_clip_model.safetensors).", file=folder)
    if not options.trust_remote_code and _asks_for_trust(config):
        raise InputError(
            "open_clip_config.json asks for its own code to be run (trust_remote_code): pass "
            f"{option('trust_remote_code', True)} if you trust it.",
            file=folder,
        )
    quick = bool(model.get("quick_gelu", False))
    network = _create_network(library, f"local-dir:{folder}", name, options, file=None, quick=quick)
    tokenizer = _load_tokenizer(library, f"local-dir:{folder}", name, model, options)
    known = _compute_fingerprint(
        [files[0], *folder.glob("*token*.json"), *folder.glob("vocab*")],
        model,
        quick,
        network,
        options,
    )
    return OpenClip(name, known, network, tokenizer, options, quick=quick)


def _import_open_clip(name: str) -> Any:
    check_torchvision(name)
    try:
        import open_clip
    except ImportError as error:
        missing = "open_clip_torch" if error.name in (None, "open_clip") else str(error.name)
        raise MissingExtraError(missing, "openclip", f"The model {name}") from None
    return open_clip


def _refuse_activation(name: str, activation: str | None) -> None:
    if activation is not None:
        raise InputError(f"{name}: its activation is known; leave out activation={activation}.")


def _is_quick_gelu(config: Any, model: str, activation: str | None, file: Path) -> bool:
    """Whether a weight file, which cannot state it, belongs to a network with QuickGELU."""
    stated = bool(config.get("quick_gelu", False))
    if stated and activation == "gelu":
        raise InputError(f"{model} has QuickGELU: leave out activation=gelu.")
    if stated or activation is not None:
        return stated or activation == "quickgelu"
    if "timm_model_name" in config["vision_cfg"]:
        return False  # timm's towers define their activation themselves
    raise InputError(
        f"{file.name} does not say which activation it was trained with: add "
        ",activation=quickgelu for OpenAI's weights and all that were tuned from them (NegCLIP), "
        ",activation=gelu for LAION's."
    )


def _find_weight_file(weights: str, model: str, library: Any) -> Path:
    file = Path(weights).expanduser()
    if file.is_file():
        return file
    if "/" in weights or file.suffix in (".pt", ".pth", ".bin", ".safetensors"):
        raise InputError("there is no such file of weights.", file=weights)
    tags = library.list_pretrained_tags_by_model(model)
    near = did_you_mean(weights, tags, otherwise=f"there are {', '.join(tags) or 'none'}.")
    raise InputError(f"open_clip has no weights {weights!r} for {model}: {near}")


def _download_tag(library: Any, tag: Any, name: str) -> Path:
    try:
        return Path(library.download_pretrained(tag))
    except Exception as error:
        raise InputError(
            f"the weights of {name} cannot be fetched ({first_line(error)}): fetch them where "
            "there is a network, and name the file here instead of the tag."
        ) from None


def _fetch_repository(source: str, name: str) -> Path:
    from contrapose.models.hf.checkpoint import OPEN_CLIP_WEIGHTS, download

    texts = ["*.json", "*.txt", "*.model"]
    for pattern in OPEN_CLIP_WEIGHTS:
        folder = download(source, None, name, [*texts, pattern], [])
        if any(folder.glob(pattern)):
            break
    return folder


def _create_network(
    library: Any, model: str, name: str, options: LoadOptions, *, file: Path | None, quick: bool
) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="QuickGELU mismatch")
            network = library.create_model(
                model,
                pretrained=None if file is None else str(file),
                precision=options.dtype,
                device=options.device,
                force_quick_gelu=quick,
                weights_only=True,
                require_pretrained=True,
            )
    except Exception as error:  # the library raises almost anything on damaged files
        raise InputError(f"the weights of {name} cannot be loaded ({first_line(error)}).") from None
    return network.eval().requires_grad_(False)


def _asks_for_trust(value: Any) -> bool:
    """Whether a configuration sets `trust_remote_code` anywhere."""
    if isinstance(value, dict):
        return bool(value.get("trust_remote_code")) or any(map(_asks_for_trust, value.values()))
    return isinstance(value, list) and any(map(_asks_for_trust, value))


def _load_tokenizer(library: Any, model: str, name: str, config: Any, options: LoadOptions) -> Any:
    of_transformers = bool(config.get("text_cfg", {}).get("hf_tokenizer_name"))
    trust = {"trust_remote_code": options.trust_remote_code} if of_transformers else {}
    try:
        return library.get_tokenizer(model, **trust)
    except Exception as error:
        raise InputError(
            f"the tokeniser of {name} cannot be loaded ({first_line(error)})."
        ) from None


def _compute_fingerprint(
    files: list[Path], config: Any, quick: bool, network: Any, options: LoadOptions
) -> str:
    return fingerprint(
        files,
        adapter=ADAPTER,
        model=json.dumps({**config, "quick_gelu": quick}, sort_keys=True),
        preprocessing=json.dumps(network.visual.preprocess_cfg, sort_keys=True),
        dtype=options.dtype,
        cut=options.cut,
    )


class OpenClip:
    """Dual encoder of open_clip: score `itc` is the cosine of image and caption vectors.

    Captions are padded to the full length, as in the library.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of weights, configuration and preprocessing.
        batch_size: default number of images or captions per call.
        network: the library's network.
        card: the model card.
        text_masks: supported kinds of masking; CLIP's tokenizer pads with token 0.
        pixel_mean: the color that is zero for the network.
    """

    def __init__(
        self,
        name: str,
        fingerprint: str,
        network: Any,
        tokenizer: Any,
        options: LoadOptions,
        *,
        quick: bool,
    ):
        self.name = name
        self.fingerprint = fingerprint
        self.batch_size = 64
        fuse_quick_gelu(network, options.device, options.torch_dtype)
        self.network = network
        self._tokenizer = tokenizer
        self._options = options
        self._steps = build_transform(network.visual.preprocess_cfg)
        self.resize_crop = self._steps.resize_crop if self._steps else None
        resize = self._steps.resize_to_bytes if self._steps else None
        self._transform = resize or _library_transform(network)
        self._added = self.token_counts([""])[0]
        self._word_embedding = find_word_embedding(getattr(network, "text", network))
        plain = getattr(tokenizer, "tokenizer", None) is None
        kinds = (ZERO, PAD, TOKEN_0) if plain else (ZERO,)
        self.text_masks = kinds if self._word_embedding is not None else ()
        self.pixel_mean = tuple(map(float, network.visual.preprocess_cfg["mean"]))
        scale = network.logit_scale.detach().float().exp().item()
        self.card = ModelCard(
            family="open_clip",
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=self._steps.describe() if self._steps else "as open_clip does it",
            context=self.context,
            notes=(
                f"itc is the bare cosine; in training it was multiplied by {scale:.4g}",
                f"its activation is {'QuickGELU' if quick else 'that of its configuration'}",
            ),
        )

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        rows: list[Any] = [
            self.prepare_image(image) if isinstance(image, Image) else image for image in images
        ]
        pixels = batch_images(rows, self._steps, self._options.device, self._options.torch_dtype)
        return normalize_rows(self.network.encode_image(pixels))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        most = None if self.cuts else self.context
        captions = full_captions(texts)
        for caption, count in zip(captions, self.token_counts(captions), strict=True):
            check_caption(self.name, caption, count, self._added, most)
        tokens = self._tokenizer(captions)
        masked = [self._mask_flags(row, text) for row, text in zip(tokens, texts, strict=True)]
        for row, flags, text in zip(tokens, masked, texts, strict=True):
            if isinstance(text, MaskedText) and text.kind != ZERO:
                row[: len(flags)][tensor(flags, dtype=bool_)] = 0
        device = self._options.device
        zero_flags = make_zero_flags(masked, texts, tokens.shape[1], device=device)
        with zero_embeddings(self._word_embedding, zero_flags):
            return normalize_rows(self.network.encode_text(tokens.to(device)))

    def prepare_image(self, image: Image) -> Tensor:
        """Preprocess an image; normalization may be left to the device."""
        return self._transform(image.convert("RGB"))

    def normalize_image(self, prepared: Tensor) -> Tensor:
        """Normalize a prepared image."""
        if self._steps is None or prepared.is_floating_point():
            return prepared
        return self._steps.normalize_bytes(prepared)

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return int(self._tokenizer.context_length)

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self._options.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        inner = getattr(self._tokenizer, "tokenizer", None)
        if inner is None:
            return [len(self._tokenizer.encode(full_caption(text))) + 2 for text in texts]
        clean = self._clean()
        cleaned = [clean(full_caption(text)) for text in texts]
        if getattr(self._tokenizer, "tokenizer_mode", "") == "clips":  # start, end and class
            return [len(row) + 3 for row in inner(cleaned, add_special_tokens=False)["input_ids"]]
        return [len(row) for row in inner(cleaned, verbose=False)["input_ids"]]

    def _mask_flags(self, row: Tensor, text: str) -> list[bool]:
        """Mask flag of each token of a row, up to the end of the caption."""
        if not isinstance(text, MaskedText):
            return []
        flags = flag_by_prefix(self._encode, text.caption, text.hidden)
        ids = self._encode(text.caption)
        before = 0 if row[: len(ids)].tolist() == ids else 1
        return ([False] * before + flags)[: len(row) - 1]

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        inner = getattr(self._tokenizer, "tokenizer", None)
        if inner is None:
            return list(self._tokenizer.encode(text))
        columns = inner(self._clean()(text), add_special_tokens=False, verbose=False)
        return list(columns["input_ids"])

    def _clean(self) -> Callable[[str], str]:
        from open_clip.tokenizer import basic_clean, canonicalize_text

        clean: Callable[[str], str] | None = getattr(self._tokenizer, "clean_fn", None)
        return clean or (lambda text: str(canonicalize_text(basic_clean(text))))


def build_transform(config: Any) -> ImageTransform | None:
    """Image transform equal to open_clip's preprocessing; None where that is unusual."""
    size, mode = config["size"], config["resize_mode"]
    height, width = (size, size) if isinstance(size, int) else (size[0], size[1])
    if mode not in ("shortest", "squash"):
        return None
    return torchvision_transform(config, (height, width), squash=mode == "squash")


def _library_transform(network: Any) -> Callable[[Image], Tensor]:
    from open_clip.transform import PreprocessCfg, image_transform_v2

    config = PreprocessCfg(**network.visual.preprocess_cfg)
    return cast("Callable[[Image], Tensor]", image_transform_v2(config, is_train=False))
