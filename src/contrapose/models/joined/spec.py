"""Folder of joined encoders: `joined.json` names them, `heads.safetensors` holds the heads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from contrapose.errors import InputError
from contrapose.files import new_folder, write_bytes, write_text

if TYPE_CHECKING:
    from torch import Tensor

REQUIRED_KEYS = ("weight",)
LINEAR_KEYS = ("weight", "bias")
HIDDEN_KEYS = ("hidden.weight", "hidden.bias", "out.weight")
"""A head has all of these or none."""


def apply_head(vectors: Tensor, heads: Mapping[str, Tensor], side: str) -> Tensor:
    """Apply a side's head to vectors (n, p): Wx + b, plus V·gelu(Ux + u) if it has that."""
    from torch.nn.functional import gelu, linear

    found = linear(vectors, heads[f"{side}.weight"], heads.get(f"{side}.bias"))
    if f"{side}.hidden.weight" not in heads:
        return found
    weight, bias, out = (heads[f"{side}.{name}"] for name in HIDDEN_KEYS)
    return found + linear(gelu(linear(vectors, weight, bias)), out)


def find_head_fault(heads: Mapping[str, Tensor], side: str) -> str:
    """Fault of a side's head, `names` or `shapes`; empty when it is valid."""
    own = {name.removeprefix(f"{side}."): head.shape for name, head in heads.items()
           if name.startswith(f"{side}.")}  # fmt: skip
    if not set(REQUIRED_KEYS) <= set(own) or set(own) - {*LINEAR_KEYS, *HIDDEN_KEYS}:
        return "names"
    if 0 < len(set(HIDDEN_KEYS) & set(own)) < len(HIDDEN_KEYS):
        return "names"
    weight = own["weight"]
    if len(weight) != 2:
        return "shapes"
    width, given = weight
    wanted = {"weight": (width, given), "bias": (width,)}
    if HIDDEN_KEYS[0] in own:
        middle = own[HIDDEN_KEYS[0]][0] if own[HIDDEN_KEYS[0]] else 0
        wanted |= dict(zip(HIDDEN_KEYS, ((middle, given), (middle,), (width, middle)), strict=True))
    return "" if all(tuple(own[name]) == wanted[name] for name in own) else "shapes"


FORMAT = "contrapose-joined-1"
SPEC = "joined.json"
HEADS = "heads.safetensors"

Pool = Literal["pooler", "first", "mean", "last", "max"]
"""What of an encoder's output is its vector: its own pooler's, its first place's, the mean …"""
Kind = Literal["hf", "timm", "model"]


@dataclass(frozen=True, slots=True)
class Side:
    """Spec of one encoder of a joined pair.

    Attributes:
        source: a folder (from the joined folder, where relative), an id on the hub, for timm the
            name of the architecture, or, for a whole model, what `load_model` takes.
        pool: what of its output is its vector; empty: as the encoder itself says.
        kind: `hf` for transformers and sentence-transformers, `timm` for images only, `model` for a
            dual encoder's own vectors.
        revision: on the hub.
        weights: for timm: the file of its weights, from the joined folder where relative.
        normalise: bring its vector to unit length before the map.
    """

    source: str
    pool: Pool | Literal[""] = ""
    kind: Kind = "hf"
    revision: str | None = None
    weights: str | None = None
    normalise: bool = True


@dataclass(frozen=True, slots=True)
class JoinedSpec:
    """Spec of joined encoders: the image and the text encoder.

    Attributes:
        image: the image encoder.
        text: the sentence encoder.
    """

    image: Side
    text: Side

    def resolve_paths(self, start: Path) -> JoinedSpec:
        """Copy with paths relative to `start` made absolute."""
        return JoinedSpec(_resolve_side(self.image, start), _resolve_side(self.text, start))


def save_joined(folder: Path, joining: JoinedSpec, heads: Mapping[str, Tensor]) -> None:
    """Write a folder of joined encoders atomically; the encoders stay where they are.

    Args:
        folder: must not exist, or be empty.
        joining: which encoders.
        heads: `image.weight` (d, image's) and `text.weight` (d, text's); `image.bias` and
            `text.bias` (d,) may be there, and a hidden layer a side (`maps.HIDDEN`).

    Raises:
        InputError: the folder is taken, or the heads do not fit together.
    """
    from safetensors.torch import save

    check_heads(heads, folder)
    contiguous = {name: head.detach().cpu().float().contiguous() for name, head in heads.items()}
    content = {"format": FORMAT, **asdict(joining)}
    with new_folder(folder) as place:
        write_bytes(place / HEADS, save(contiguous))
        write_text(place / SPEC, json.dumps(content, indent=2) + "\n")


def read_joined(folder: Path) -> tuple[JoinedSpec, dict[str, Tensor]]:
    """Read the spec of a folder, and its heads in float32.

    Raises:
        InputError: a file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    joining = read_joined_spec(folder / SPEC)
    try:
        heads = {name: head.float() for name, head in load((folder / HEADS).read_bytes()).items()}
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot be read ({error}).", file=folder / HEADS) from None
    check_heads(heads, folder / HEADS)
    return joining, heads


def read_joined_spec(spec: Path) -> JoinedSpec:
    """Read the spec of a `joined.json`.

    Raises:
        InputError: it cannot be read.
    """
    try:
        content = json.loads(spec.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise InputError(
                f"is of format {content['format']!r}; this program reads {FORMAT!r}.", file=spec
            )
        return JoinedSpec(_parse_side(content["image"]), _parse_side(content["text"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot be read ({error}).", file=spec) from None


def check_heads(heads: Mapping[str, Tensor], file: Path) -> None:
    """Raise `InputError` unless there is one head per side, both of one output dimension."""
    found = [find_head_fault(heads, side) for side in ("image", "text")]
    strange = [name for name in heads if name.partition(".")[0] not in ("image", "text")]
    if strange or "names" in found:
        raise InputError(
            f"the heads are {', '.join(sorted(heads)) or 'none'}; needed are image.weight and "
            "text.weight, and there may be image.bias and text.bias, and of a hidden layer all of "
            f"{', '.join(f'image.{name}' for name in HIDDEN_KEYS)}, and for text alike.",
            file=file,
        )
    if "shapes" in found or len(heads["image.weight"]) != len(heads["text.weight"]):
        shapes = {name: tuple(head.shape) for name, head in heads.items()}
        raise InputError(f"the heads do not fit together: {shapes}.", file=file)


def _parse_side(content: Any) -> Side:
    side = Side(**content)
    if side.pool and side.pool not in get_args(Pool):
        raise ValueError(f"unknown pool {side.pool!r}")
    if side.kind not in get_args(Kind):
        raise ValueError(f"unknown kind {side.kind!r}")
    if not isinstance(side.source, str) or not side.source:
        raise ValueError("a side without a source")
    return side


def _resolve_side(side: Side, start: Path) -> Side:
    near = start / Path(side.source).expanduser()
    source = str(near.resolve()) if side.kind != "timm" and near.is_dir() else side.source
    weights = None if side.weights is None else str((start / side.weights).resolve())
    return replace(side, source=source, weights=weights)
