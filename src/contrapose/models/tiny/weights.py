"""Weight files: safetensors in half precision, with config, words and recipe in the header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.files import parse_json, read_bytes
from contrapose.models.options import Dtype, LoadOptions, join_settings

if TYPE_CHECKING:
    from contrapose.models.tiny.model import TinyClip
    from contrapose.models.tiny.network import TinyConfig, TinyNetwork

NAMES = ("tiny", "tiny-clip")
FORMAT = "contrapose-tiny-1"
"""Format of weight files; a file of another format is refused."""
FOLDER = Path(__file__).parent
WEIGHT_FILE = "contrapose-tiny.safetensors"
"""The weight file of a folder that holds a model of this kind."""


def load(
    name: str,
    device: str = "cpu",
    path: Path | None = None,
    *,
    dtype: Dtype = "fp32",
    cut: bool = False,
) -> TinyClip:
    """Load a built-in model, or one of its kind from a weight file.

    Args:
        name: of the model.
        device: of its computation.
        path: another weight file.
        dtype: of its computation.
        cut: truncate captions beyond the context.

    Raises:
        InputError: the weight file is missing, damaged, or of another version.
        MissingExtraError: torch is not installed.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("torch", "torch", "A built-in model") from None
    from contrapose.models.tiny.model import Tiny, TinyClip

    file = path or FOLDER / f"{name}.safetensors"
    network, words, fingerprint = read_weights(file)
    kind = TinyClip if network.fusion is None else Tiny
    options = LoadOptions(device, dtype, cut)
    if settings := options.settings():
        name = f"{name}{join_settings(settings)}"
        fingerprint = f"{fingerprint}-{'-'.join(settings.values())}"
    network = network.to(device, options.torch_dtype).eval()
    return kind(name, network, words, fingerprint, options)


def read_weights(file: Path) -> tuple[TinyNetwork, tuple[str, ...], str]:
    """Read the network, its words, and a hash of the weights.

    Raises:
        InputError: the file cannot be used.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load as parse

    from contrapose.models.tiny.network import TinyNetwork

    content = _read_bytes(file)
    try:
        header = _parse_metadata(content)
        if header.get("format") != FORMAT:
            stated = header.get("format", "no format")
            raise InputError(
                f"holds weights of {stated!r}; this program reads {FORMAT!r}.", file=file
            )
        words = _parse_words(header["words"])
        network = TinyNetwork(_parse_config(header["config"], words, _parse_header(content)))
        network.load_state_dict({name: w.float() for name, w in parse(content).items()})
    except (SafetensorError, *_DAMAGE_ERRORS) as error:
        raise _damaged_file(file, error) from None
    return network, words, hashlib.blake2b(content, digest_size=12).hexdigest()


def _parse_words(text: str) -> tuple[str, ...]:
    """Words of the tokenizer.

    Raises:
        ValueError: they are no list of different texts.
    """
    words = parse_json(text)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("its words are no list of texts")
    if len(set(words)) < len(words):
        raise ValueError("a word comes twice")
    return tuple(words)


def _parse_config(text: str, words: tuple[str, ...], header: Mapping[str, Any]) -> TinyConfig:
    """Sizes of the network that the tensors of a file are of.

    They are compared with the shapes of the tensors, of a network that has no memory, so that
    building the network takes no more than the file holds.

    Raises:
        ValueError: they are no sizes, or those of another network.
    """
    import torch

    from contrapose.models.tiny.network import TinyConfig, TinyNetwork, Tokenizer

    config = TinyConfig(**parse_json(text))
    for name, value in config.as_dict().items():
        if type(value) is not int or value < (name != "fusion_layers"):
            raise ValueError(f"{name} is {value!r}")
    if config.width % config.heads or config.width % 4 or config.patch % 4:
        raise ValueError("its sizes do not divide each other")
    if len(Tokenizer(words)) != config.vocabulary:
        raise ValueError(f"{len(words)} words for {config.vocabulary} tokens")
    tensors = {name: entry for name, entry in header.items() if name != METADATA}
    layers = config.image_layers + config.text_layers + config.fusion_layers
    if layers > len(tensors):
        raise ValueError(f"{len(tensors)} tensors for {layers} layers")
    if config.image_size > LARGEST_IMAGE:
        raise ValueError(f"image_size is {config.image_size}")
    with torch.device("meta"):
        network = TinyNetwork(config)
    shapes = {name: list(weight.shape) for name, weight in network.state_dict().items()}
    if shapes != {name: entry["shape"] for name, entry in tensors.items()}:
        raise ValueError("its tensors are not those of its sizes")
    if any(entry["dtype"] != "F16" for entry in tensors.values()):
        raise ValueError("its tensors are not of half precision")
    return config


def write_weights(
    file: Path, network: TinyNetwork, words: tuple[str, ...], recipe: Mapping[str, Any]
) -> None:
    """Write a weight file in half precision, atomically."""
    import torch
    from safetensors.torch import save

    from contrapose.files import write_bytes

    weights = {
        name: weight.detach().to("cpu", torch.float16).contiguous()
        for name, weight in network.state_dict().items()
    }
    header = {
        "format": FORMAT,
        "config": json.dumps(network.config.as_dict()),
        "words": json.dumps(words),
        "recipe": json.dumps(recipe),
    }
    write_bytes(file, _sort_header(save(weights, metadata=header)))


def read_recipe(file: Path) -> dict[str, Any]:
    """Training recipe in the header of a weight file.

    Raises:
        InputError: the file cannot be used.
    """
    content = _read_bytes(file)
    try:
        recipe: dict[str, Any] = parse_json(_parse_metadata(content)["recipe"])
    except _DAMAGE_ERRORS as error:
        raise _damaged_file(file, error) from None
    return recipe


METADATA = "__metadata__"
"""Key of the texts in the header of a safetensors file."""

LARGEST_IMAGE = 1 << 12
"""Pixels of the longest side of an image that a network reads."""

_DAMAGE_ERRORS = (ArithmeticError, AttributeError, KeyError, RuntimeError, TypeError, ValueError)
"""Errors of reading a damaged header or building a network from it."""


def _sort_header(content: bytes) -> bytes:
    """Sort the text header of a safetensors file, whose order is otherwise arbitrary."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[METADATA] = dict(sorted(header[METADATA].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the weights begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _read_bytes(file: Path) -> bytes:
    try:
        return read_bytes(file)
    except OSError as error:
        raise InputError(f"the weights cannot be read ({error.strerror}).", file=file) from None


def _damaged_file(file: Path, error: Exception) -> InputError:
    return InputError(f"the weight file is damaged ({first_line(error)}).", file=file)


def _parse_metadata(content: bytes) -> dict[str, str]:
    """Texts in the header of a safetensors file."""
    metadata: dict[str, str] = _parse_header(content).get(METADATA, {})
    return metadata


def _parse_header(content: bytes) -> dict[str, Any]:
    """Parse the header of a safetensors file: its length in 8 bytes, then JSON without doubles."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= len(content) - 8:
        raise ValueError("its header is cut off")
    header: dict[str, Any] = parse_json(content[8 : 8 + length].decode())
    return header
