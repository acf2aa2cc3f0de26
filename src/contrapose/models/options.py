"""Load options of a model: device, dtype and treatment of long captions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from contrapose.errors import InputError

if TYPE_CHECKING:
    import torch

Dtype = Literal["fp32", "bf16", "fp16"]
ServerKind = Literal["openai", "vllm", "sglang"]
SERVER_KINDS: tuple[ServerKind, ...] = get_args(ServerKind)
"""Protocols of servers, by the prefix of model strings."""
VideoForm = Literal["own", "images", "frames"]
DTYPES: tuple[str, ...] = get_args(Dtype)
_ALIASES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16"}


def find_server_kind(text: str) -> ServerKind | None:
    """Kind of server that a model string names; None where it names none."""
    return next((kind for kind in SERVER_KINDS if text.startswith(f"{kind}:")), None)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Load options of a model.

    Attributes:
        device: `cpu`, `cuda`, `cuda:1`, …
        dtype: of its computation; scores are float32 or wider in any case.
        cut: truncate captions beyond the context instead of refusing them.
        trust_remote_code: run code that comes with the weights.
        video: how a video is shown: `own` by the model's video input, `images` as the images of one
            turn, `frames` frame by frame; None takes the first of these that the model has.
    """

    device: str = "cpu"
    dtype: Dtype = "fp32"
    cut: bool = False
    trust_remote_code: bool = False
    video: VideoForm | None = None

    @property
    def torch_dtype(self) -> torch.dtype:
        """The torch dtype."""
        import torch

        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[self.dtype]

    def settings(self) -> dict[str, str]:
        """Settings that belong to a model's name, since they change its numbers."""
        settings = {} if self.dtype == "fp32" else {"dtype": str(self.dtype)}
        settings |= {"long": "cut"} if self.cut else {}
        return {**settings, "video": str(self.video)} if self.video else settings


def join_settings(settings: Mapping[str, str]) -> str:
    """Settings as they stand behind a model's name, in a form that no shell interprets."""
    return "".join(f",{key}={value}" for key, value in sorted(settings.items()))


def load_options(
    settings: Mapping[str, str],
    device: str = "cpu",
    dtype: str | None = None,
    *,
    cut: bool = False,
    trust_remote_code: bool = False,
) -> LoadOptions:
    """Load options from a name's settings, with the user's options as defaults.

    Raises:
        InputError: there is no such dtype.
    """
    return LoadOptions(
        device=device,
        dtype=parse_dtype(settings.get("dtype", dtype or "fp32")),
        cut=settings["long"] == "cut" if "long" in settings else cut,
        trust_remote_code=trust_remote_code,
        video=cast("VideoForm | None", settings.get("video")),
    )


def find_device(text: str) -> str:
    """Resolve a device name; `auto` is the first GPU, or else the CPU.

    Raises:
        InputError: there is no such device here.
    """
    try:
        import torch
    except ImportError:
        return "cpu" if text == "auto" else text
    if text == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(text)
    except (RuntimeError, ValueError):
        raise InputError(
            f"there is no device {text!r}: use cpu, cuda, cuda:1, … or auto."
        ) from None
    if device.type == "cuda":
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            devices = f"there are {count} CUDA devices" if count else "no CUDA device is to be had"
            raise InputError(f"there is no device {text!r}, {devices} here: use cpu or auto.")
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError("there is no device 'mps' here: use cpu or auto.")
    elif device.type not in ("cpu", "mps", "xpu"):
        raise InputError(f"models are not run on {text!r} here: use cpu, cuda or auto.")
    return text


def parse_dtype(text: str) -> Dtype:
    """Parse a dtype by its short or its torch name.

    Raises:
        InputError: it is unknown.
    """
    name = _ALIASES.get(text.lower().removeprefix("torch."), text.lower())
    if name not in DTYPES:
        raise InputError(f"there is no dtype {text!r}; there are {', '.join(DTYPES)}.")
    return cast(Dtype, name)
