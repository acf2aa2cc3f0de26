"""Weight files: safetensors in half precision, with config, words and recipe in the header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from contrapose.models.tiny.model import TinyClip
    from contrapose.models.tiny.network import Network

NAMES = ("tiny", "tiny-clip")
FORMAT = "contrapose-tiny-1"
"""What this program reads; a file of another format is refused."""
FOLDER = Path(__file__).parent


def load(name: str, device: str = "cpu", path: Path | None = None) -> TinyClip:
    """A built-in model, or one of its kind from a weight file.

    Raises:
        InputError: the weight file is missing, damaged, or of another version.
        MissingExtraError: torch is not installed.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("torch", "torch", "a built-in model") from None
    from contrapose.models.tiny.model import Tiny, TinyClip

    file = path or FOLDER / f"{name}.safetensors"
    network, words, fingerprint = read_weights(file)
    kind = TinyClip if network.fusion is None else Tiny
    return kind(name, network.to(device).eval(), words, fingerprint)


def read_weights(file: Path) -> tuple[Network, tuple[str, ...], str]:
    """The network, its words, and a name for exactly these weights.

    Raises:
        InputError: the file cannot be used.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load as parse

    from contrapose.models.tiny.network import Config, Network

    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"the weights cannot be read ({error.strerror}).", file=file) from None
    try:
        header = _metadata(content)
        if header.get("format") != FORMAT:
            found = header.get("format", "no format")
            raise InputError(
                f"holds weights of {found!r}; this program reads {FORMAT!r}.", file=file
            )
        network = Network(Config(**json.loads(header["config"])))
        network.load_state_dict({name: w.float() for name, w in parse(content).items()})
        words = tuple(json.loads(header["words"]))
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError) as error:
        first = str(error).split("\n", maxsplit=1)[0]
        raise InputError(f"the weight file is damaged ({first}).", file=file) from None
    return network, words, hashlib.blake2b(content, digest_size=12).hexdigest()


def write_weights(
    file: Path, network: Network, words: tuple[str, ...], recipe: Mapping[str, Any]
) -> None:
    """Write a weight file in half precision, whole or not at all."""
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
    write_bytes(file, save(weights, metadata=header))


def read_recipe(file: Path) -> dict[str, Any]:
    """How the weights of a file were made."""
    recipe: dict[str, Any] = json.loads(_metadata(file.read_bytes())["recipe"])
    return recipe


def _metadata(content: bytes) -> dict[str, str]:
    """The text header of a safetensors file: its length in 8 bytes, then JSON."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= len(content) - 8:
        raise ValueError("its header is cut off")
    found: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return found
