"""Joined encoders: any image encoder and any sentence encoder with trained heads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from contrapose.errors import InputError, MissingExtraError
from contrapose.files import digest, new_folder, read_bytes, read_json, write_bytes, write_text
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from torch import Tensor

    from contrapose.models.joined.model import JoinedEncoder

REQUIRED_KEYS = ("weight",)
LINEAR_KEYS = ("weight", "bias")
HIDDEN_KEYS = ("hidden.weight", "hidden.bias", "out.weight")
"""Keys of the hidden layer: a head has all of these or none."""


def apply_head(vectors: Tensor, heads: Mapping[str, Tensor], side: str) -> Tensor:
    """Apply a side's head to vectors (n, p): Wx + b, plus V·gelu(Ux + u) if it has that."""
    from torch.nn.functional import gelu, linear

    mapped = linear(vectors, heads[f"{side}.weight"], heads.get(f"{side}.bias"))
    if f"{side}.hidden.weight" not in heads:
        return mapped
    weight, bias, out = (heads[f"{side}.{name}"] for name in HIDDEN_KEYS)
    return mapped + linear(gelu(linear(vectors, weight, bias)), out)


def find_head_fault(heads: Mapping[str, Tensor], side: str) -> str:
    """Fault of a side's head, `names` or `shapes`; empty when it is valid."""
    prefix = f"{side}."
    shapes = {
        name.removeprefix(prefix): head.shape
        for name, head in heads.items()
        if name.startswith(prefix)
    }
    if not set(REQUIRED_KEYS) <= set(shapes) or set(shapes) - {*LINEAR_KEYS, *HIDDEN_KEYS}:
        return "names"
    if 0 < len(set(HIDDEN_KEYS) & set(shapes)) < len(HIDDEN_KEYS):
        return "names"
    if len(shapes["weight"]) != 2:
        return "shapes"
    out, given = shapes["weight"]
    wanted = {"weight": (out, given), "bias": (out,)}
    if HIDDEN_KEYS[0] in shapes:
        middle = shapes[HIDDEN_KEYS[0]][0] if shapes[HIDDEN_KEYS[0]] else 0
        wanted |= dict(zip(HIDDEN_KEYS, ((middle, given), (middle,), (out, middle)), strict=True))
    return "" if all(tuple(shapes[name]) == wanted[name] for name in shapes) else "shapes"


FORMAT = "contrapose-joined-1"
SPEC = "joined.json"
HEADS = "heads.safetensors"

Pool = Literal["pooler", "first", "mean", "last", "max"]
"""Pooling of an encoder's output: its pooler, its first position, the mean …"""
Kind = Literal["hf", "timm", "model"]


@dataclass(frozen=True, slots=True)
class Side:
    """Spec of one encoder of a joined pair.

    Attributes:
        source: a folder (relative to the joined folder), an id on the hub, the architecture's name
            for timm, or a model string for `kind="model"`.
        pool: pooling of its output; empty: as the encoder states.
        kind: `hf` for transformers and sentence-transformers, `timm` for images only, `model` for
            the vectors of a dual encoder.
        revision: on the hub.
        weights: for timm: its weight file, relative to the joined folder.
        normalise: normalize its vector to unit length before the head.
    """

    source: str
    pool: Pool | Literal[""] = ""
    kind: Kind = "hf"
    revision: str | None = None
    weights: str | None = None
    normalise: bool = True


@dataclass(frozen=True, slots=True)
class JoinedSpec:
    """Spec of joined encoders: the image and the text encoder, or one of them.

    Attributes:
        image: the image encoder; None where there is a text encoder alone.
        text: the sentence encoder; None where there is an image encoder alone.
        space: name of the vectors' space, the same for encoders whose vectors can be compared;
            empty: told by the heads, or by the model that is the only side.
    """

    image: Side | None
    text: Side | None
    space: str = ""

    def __post_init__(self) -> None:
        if self.image is None and self.text is None:
            raise ValueError("a joined model without an encoder")

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides that have an encoder: `image`, `text`, or both."""
        encoders = {"image": self.image, "text": self.text}
        return tuple(name for name, side in encoders.items() if side is not None)

    def resolve_paths(self, start: Path) -> JoinedSpec:
        """Copy with paths relative to `start` made absolute."""
        image, text = (
            None if side is None else _resolve_side(side, start) for side in (self.image, self.text)
        )
        return replace(self, image=image, text=text)

    def describe(self) -> str:
        """Sources of the encoders in words."""
        return " and ".join(side.source for side in (self.image, self.text) if side is not None)


def model_side(model: str) -> Side:
    """Side that is a model; its folder is absolute, so that it is there from any working directory.

    Raises:
        InputError: it is no model string.
    """
    from contrapose.models.names import parse_name
    from contrapose.models.registry import model_names

    parsed = parse_name(model, model_names())
    if parsed.scheme in ("folder", "joined"):
        parsed = replace(parsed, body=str(Path(parsed.body).expanduser().resolve()))
    return Side(str(parsed), kind="model")


def save_joined(folder: Path, spec: JoinedSpec, heads: Mapping[str, Tensor]) -> None:
    """Write a folder of joined encoders atomically; the encoders stay where they are.

    Args:
        folder: must not exist, or be empty.
        spec: the encoders.
        heads: `image.weight` (d, image's) and `text.weight` (d, text's); optional `image.bias` and
            `text.bias` (d,), and a hidden layer per side (`HIDDEN_KEYS`). Of one encoder alone:
            those of its side, or none.

    Raises:
        InputError: the folder is taken, or the heads do not fit together.
    """
    from safetensors.torch import save

    check_heads(heads, folder, spec.sides)
    contiguous = {name: head.detach().cpu().float().contiguous() for name, head in heads.items()}
    content = {"format": FORMAT, **asdict(spec)}
    if not spec.space:
        del content["space"]
    with new_folder(folder) as new:
        if heads:
            write_bytes(new / HEADS, save(contiguous))
        write_text(new / SPEC, json.dumps(content, indent=2) + "\n")


def read_joined(folder: Path) -> tuple[JoinedSpec, dict[str, Tensor]]:
    """Read the spec of a folder, and its heads in float32; one encoder alone may have none.

    Raises:
        InputError: a file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    spec = read_joined_spec(folder / SPEC)
    if len(spec.sides) == 1 and not (folder / HEADS).exists():
        return spec, {}
    try:
        heads = {name: head.float() for name, head in load(read_bytes(folder / HEADS)).items()}
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot be read ({error}).", file=folder / HEADS) from None
    check_heads(heads, folder / HEADS, spec.sides)
    return spec, heads


def read_joined_spec(file: Path) -> JoinedSpec:
    """Read the spec of a `joined.json`.

    Raises:
        InputError: it cannot be read.
    """
    try:
        content = read_json(file)
        if content["format"] != FORMAT:
            raise InputError(
                f"is of format {content['format']!r}; this program reads {FORMAT!r}.", file=file
            )
        image, text = (
            None if content.get(name) is None else _parse_side(content[name])
            for name in ("image", "text")
        )
        space = content.get("space", "")
        if not isinstance(space, str):
            raise ValueError("space is a name")
        return JoinedSpec(image, text, space)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot be read ({error}).", file=file) from None


def head_space(folder: Path) -> str:
    """Space of a folder's vectors, told by its heads; empty without heads."""
    file = folder / HEADS
    return f"heads {digest(file.read_bytes())}" if file.is_file() else ""


def save_side(folder: Path, side: str, out: Path) -> None:
    """Write one side of joined encoders as a folder of its own, in the space of both.

    Images that the image side embeds can be searched with the text side, on another machine too.

    Args:
        folder: with the `joined.json` of both.
        side: `image` or `text`.
        out: must not exist, or be empty.

    Raises:
        InputError: the folder cannot be read or lacks the side, or `out` is taken.
    """
    spec, heads = read_joined(folder)
    if side not in spec.sides:
        raise InputError(f"has no {side} encoder.", file=folder / SPEC)
    absolute = spec.resolve_paths(folder.resolve())
    alone = JoinedSpec(
        absolute.image if side == "image" else None,
        absolute.text if side == "text" else None,
        spec.space or head_space(folder),
    )
    mine = {name: head for name, head in heads.items() if name.startswith(f"{side}.")}
    save_joined(out, alone, mine)


def check_heads(
    heads: Mapping[str, Tensor], file: Path, sides: Sequence[str] = ("image", "text")
) -> None:
    """Raise `InputError` unless there is one head per side, both of one output dimension.

    A model of one side may also have no head.
    """
    if len(sides) == 1 and not heads:
        return
    faults = [find_head_fault(heads, side) for side in sides]
    strange = [name for name in heads if name.partition(".")[0] not in sides]
    if strange or "names" in faults:
        raise InputError(
            f"the heads are {', '.join(sorted(heads)) or 'none'}; needed are "
            f"{' and '.join(f'{side}.weight' for side in sides)}, and there may be "
            f"{' and '.join(f'{side}.bias' for side in sides)}, and of a hidden layer all of "
            f"{', '.join(f'{sides[0]}.{name}' for name in HIDDEN_KEYS)}"
            f"{', and for text alike' if len(sides) > 1 else ''}.",
            file=file,
        )
    if "shapes" in faults or len({len(heads[f"{side}.weight"]) for side in sides}) > 1:
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


__all__ = [
    "JoinedSpec",
    "Side",
    "load",
    "load_encoders",
    "model_side",
    "read_joined",
    "save_joined",
    "save_side",
]


def load(folder: Path, name: str, options: LoadOptions) -> JoinedEncoder:
    """Load joined encoders from a folder with a `joined.json`.

    Raises:
        InputError: the folder, its heads or an encoder cannot be used.
        MissingExtraError: torch or transformers is not installed.
    """
    sides = read_joined_spec(folder / SPEC)
    try:
        import torch  # noqa: F401

        if any(side is not None and side.kind == "hf" for side in (sides.image, sides.text)):
            import transformers  # noqa: F401
    except ImportError as error:
        missing = error.name or "transformers"
        raise MissingExtraError(missing, "hf", f"The model {name}") from None
    from contrapose.models.joined.model import JoinedEncoder

    spec, heads = read_joined(folder)
    files = [file for file in (folder / SPEC, folder / HEADS) if file.exists()]
    return JoinedEncoder(spec, heads, name, options, folder=folder, files=files)


def load_encoders(
    image: str | None, text: str | None, options: LoadOptions
) -> tuple[JoinedEncoder, JoinedSpec]:
    """Load an image encoder, a text encoder, or both, without heads; and their spec.

    Each gives unit vectors of its own width. Paths of the spec are absolute.

    Raises:
        InputError: an encoder cannot be used.
        MissingExtraError: torch or transformers is not installed.
    """
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "transformers", "hf", "An encoder") from None
    from contrapose.models.joined.model import JoinedEncoder

    sides = (None if source is None else Side(source) for source in (image, text))
    spec = JoinedSpec(next(sides), next(sides)).resolve_paths(Path())
    return JoinedEncoder(spec, {}, spec.describe(), options), spec
