"""Model registry: the families, and loading of a model by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar, cast

from contrapose.errors import InputError, MissingExtraError
from contrapose.files import did_you_mean, include, restore_folder
from contrapose.models.capabilities import Model
from contrapose.models.names import ModelName, parse_name, split_settings
from contrapose.models.options import SERVER_KINDS, LoadOptions, find_device, load_options
from contrapose.models.video_reader import VideoReader


@dataclass(frozen=True, slots=True)
class FamilyCard:
    """Family of models: name pattern, scores, extra to install, example.

    Attributes:
        name: such as `CLIP`.
        pattern: of its model strings.
        scores: scores of its models.
        extra: extra of this package that it needs; empty for none.
        example: a model string.
    """

    name: str
    pattern: str
    scores: tuple[str, ...]
    extra: str
    example: str


_HF = "hf:ORG/NAME[@REVISION] or a folder"
_BOTH = ("itc", "itm")
_LM = ("lm", "prior")
_CHAT = (*_LM, "vqa", "chat")

_FAMILIES = (
    FamilyCard("tiny", "tiny", ("itc", "itm", "lm", "prior"), "torch", "tiny"),
    FamilyCard("tiny-clip", "tiny-clip", ("itc",), "torch", "tiny-clip"),
    FamilyCard("CLIP", _HF, ("itc",), "hf", "hf:openai/clip-vit-base-patch32"),
    FamilyCard("SigLIP", _HF, ("itc",), "hf", "hf:google/siglip-base-patch16-224"),
    FamilyCard("SigLIP 2", _HF, ("itc",), "hf", "hf:google/siglip2-base-patch16-224"),
    FamilyCard("ALIGN", _HF, ("itc",), "hf", "hf:kakaobrain/align-base"),
    FamilyCard("AltCLIP", _HF, ("itc",), "hf", "hf:BAAI/AltCLIP"),
    FamilyCard("BLIP", _HF, _BOTH, "hf", "hf:Salesforce/blip-itm-base-coco"),
    FamilyCard("BLIP-2", _HF, _BOTH, "hf", "hf:Salesforce/blip2-itm-vit-g"),
    FamilyCard("BLIP captioners", _HF, _LM, "hf", "hf:Salesforce/blip-image-captioning-base"),
    FamilyCard("BLIP VQA", _HF, ("vqa",), "hf", "hf:Salesforce/blip-vqa-base"),
    FamilyCard("BLIP-2 captioners", _HF, (*_LM, "vqa"), "hf", "hf:Salesforce/blip2-opt-2.7b"),
    FamilyCard("GIT", _HF, _LM, "hf", "hf:microsoft/git-base-coco"),
    FamilyCard("VideoPrism", _HF, ("itc",), "hf", "hf:google/videoprism-lvt-base-f16r288"),
    FamilyCard("X-CLIP", _HF, ("itm",), "hf", "hf:microsoft/xclip-base-patch32"),
    FamilyCard("LLaVA", _HF, _CHAT, "hf", "hf:llava-hf/llava-1.5-7b-hf"),
    FamilyCard("Qwen-VL", _HF, _CHAT, "hf", "hf:Qwen/Qwen2.5-VL-7B-Instruct"),
    FamilyCard("SmolVLM, Idefics", _HF, _CHAT, "hf", "hf:HuggingFaceTB/SmolVLM-Instruct"),
    FamilyCard("other chat models with images", _HF, _CHAT, "hf", "hf:google/gemma-3-4b-it"),
    FamilyCard("FLAVA", _HF, _BOTH, "hf", "hf:facebook/flava-full"),
    FamilyCard("ViLT", _HF, ("itm",), "hf", "hf:dandelin/vilt-b32-finetuned-coco"),
    FamilyCard("BridgeTower", _HF, _BOTH, "hf", "hf:BridgeTower/bridgetower-large-itm-mlm-itc"),
    FamilyCard(
        "open_clip",
        "openclip:MODEL/TAG, openclip:MODEL/FILE or openclip:hf-hub:ORG/NAME",
        ("itc",),
        "openclip",
        "openclip:ViT-B-32/laion2b_s34b_b79k",
    ),
    FamilyCard(
        "sentence-transformers with images",
        "st:ORG/NAME[@REVISION] or st:FOLDER",
        ("itc",),
        "st",
        "st:sentence-transformers/clip-ViT-B-32",
    ),
    FamilyCard("joined encoders", "joined:FOLDER", ("itc",), "hf", "joined:my-heads"),
    FamilyCard(
        "language models",
        "lm:smollm2, lm:ORG/NAME[@REVISION], lm:FOLDER or lm:FILE.gguf",
        ("blind",),
        "language",
        "lm:smollm2",
    ),
    FamilyCard(
        "chat endpoints",
        "openai:MODEL,url=URL",
        ("chat", "chat:eqben", "chat:sugarcrepe", "chat:yes-no", "vqa"),
        "",
        "openai:gpt-4o-mini",
    ),
    FamilyCard(
        "models served by vLLM",
        "vllm:MODEL,url=URL",
        _CHAT,
        "hf",
        "vllm:Qwen/Qwen2.5-VL-7B-Instruct",
    ),
    FamilyCard(
        "models served by SGLang",
        "sglang:MODEL,url=URL",
        _CHAT,
        "hf",
        "sglang:Qwen/Qwen2.5-VL-7B-Instruct",
    ),
    FamilyCard("one's own", "PACKAGE:CLASS or FILE.py:CLASS", (), "", "my_model.py:MyModel"),
)


def families() -> tuple[FamilyCard, ...]:
    """All known families, built-in ones first."""
    return _FAMILIES


ENTRY_POINT_GROUP = "contrapose.models"
"""Group of entry points of other packages; an entry point is a loader."""

L = TypeVar("L", bound=Callable[..., Any])
LOADER_ARGUMENTS = ("name", "device", "dtype", "cut", "trust_remote_code")
"""Parameters that a loader may have; it is called with those that it has, by name."""

BUILT_IN: dict[str, str] = {
    "tiny": "contrapose.models.tiny",
    "tiny-clip": "contrapose.models.tiny",
}
"""Model name → module whose `load` loads it."""
_OPTIONAL_FAMILIES = {"lm": ("language", "language"), "st": ("sentences", "st")}
"""Scheme → module of this package and extra that it needs."""
_loaders: dict[str, Callable[..., Any]] = {}


def register_model(name: str) -> Callable[[L], L]:
    """Decorator that registers a loader under a model name.

    A loader is a function or class that returns a model. It is called with those of `name`,
    `device`, `dtype`, `cut` and `trust_remote_code` that it has as parameters.

    Raises:
        InputError: the name is taken, or could be mistaken for another kind of model string.
    """
    if not name or set(name) & set(":/?,@") or name.startswith((".", "~")):
        raise InputError(f"a model cannot be called {name!r}: give it a plain name.")
    if name in BUILT_IN or name in _find_plugins():
        raise InputError(f"there is a model {name!r} already: give yours another name.")

    def register(loader: L) -> L:
        _loaders[name] = loader
        return loader

    return register


def model_names() -> tuple[str, ...]:
    """Sorted names of all registered models."""
    return tuple(sorted({*BUILT_IN, *_loaders, *_find_plugins()}))


def load_model(
    name: str,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    cut: bool = False,
    trust_remote_code: bool = False,
) -> Model:
    """Load the model of this name on this device.

    Args:
        name: a model string, see `contrapose.models.names`; its settings override the arguments.
        device: `cpu`, `cuda`, `cuda:1`, … or `auto`.
        dtype: `fp32`, `bf16` or `fp16`; default: float32.
        cut: truncate captions beyond the context instead of refusing them.
        trust_remote_code: run code that comes with the weights.

    Raises:
        InputError: there is no such model, or it cannot be loaded; the message says what to do.
        MissingExtraError: a library that it needs is not installed.
    """
    parsed = parse_name(name, model_names())
    model = _load_parsed(parsed, name, device, dtype, cut=cut, trust_remote_code=trust_remote_code)
    _check_video_form(model, parsed.settings.get("video"))
    return model


def _load_parsed(
    parsed: ModelName,
    name: str,
    device: str,
    dtype: str | None,
    *,
    cut: bool,
    trust_remote_code: bool,
) -> Model:
    """Load the model of a parsed name; see `load_model`."""
    # Resolving `auto` imports torch, which not every model needs.
    known_device = device if device == "auto" else find_device(device)
    options = load_options(
        parsed.settings, known_device, dtype, cut=cut, trust_remote_code=trust_remote_code
    )
    if parsed.scheme in ("registered", "python"):
        return _call_loader(_find_loader(parsed), parsed, options)
    if parsed.scheme in SERVER_KINDS:
        if options.dtype != "fp32":
            raise InputError(f"{parsed} computes as its server does: leave out {options.dtype}.")
        from contrapose.models import endpoint

        return endpoint.load(name.strip(), cut=cut)  # with the credentials that the name leaves out
    options = replace(options, device=find_device(options.device))
    _refuse_activation(parsed)
    activation = parsed.settings.get("activation")
    settings = {**options.settings(), **({"activation": activation} if activation else {})}
    canonical = str(replace(parsed, settings=settings))
    if parsed.scheme == "openclip":
        openclip = _import_family("openclip", "openclip", canonical)
        return cast(Model, openclip.load(parsed.body, canonical, options, activation))
    if parsed.scheme == "hf":
        from contrapose.models import hf

        return hf.load(parsed.body, parsed.revision, canonical, options)
    if parsed.scheme in _OPTIONAL_FAMILIES:
        module, extra = _OPTIONAL_FAMILIES[parsed.scheme]
        family = _import_family(module, extra, canonical)
        return cast(Model, family.load(parsed.body, parsed.revision, canonical, options))
    return _load_folder(Path(parsed.body).expanduser(), canonical, options)


def _import_family(module: str, extra: str, name: str) -> Any:
    """Import the module of a family, whose libraries may not be installed."""
    try:
        return import_module(f"contrapose.models.{module}")
    except ImportError as error:
        raise MissingExtraError(error.name or module, extra, f"The model {name}") from None


def _load_folder(folder: Path, name: str, options: LoadOptions) -> Model:
    """Load the model in a folder, whichever kind it is."""
    restore_folder(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}.")
    if (folder / "joined.json").is_file():
        from contrapose.models import joined

        return joined.load(folder, name, options)
    if name.startswith("joined:"):
        raise InputError("holds no joined.json: it is no folder of joined encoders.", file=folder)
    from contrapose.models.tiny import weights

    if (folder / weights.WEIGHT_FILE).is_file():
        plain, _ = split_settings(name)
        file, dtype = folder / weights.WEIGHT_FILE, options.dtype
        return weights.load(plain, options.device, file, dtype=dtype, cut=options.cut)
    from contrapose.models import hf

    return hf.load(str(folder), None, name, options)


def _find_loader(name: ModelName) -> Any:
    """Find the loader of a registered model, or of the user's class or function."""
    if name.scheme == "registered":
        if name.body in BUILT_IN:
            return import_module(BUILT_IN[name.body]).load
        if name.body in _loaders:
            return _loaders[name.body]
        return _find_plugins()[name.body].load()
    source, _, attribute = name.body.rpartition(":")
    if source.endswith(".py"):
        module = include(source)
    else:
        try:
            module = import_module(source)
        except ImportError as error:
            hint = did_you_mean(
                source,
                ("hf", "openclip", "joined", "lm", "st", "vllm", "sglang"),
                otherwise="is it installed?",
            )
            raise InputError(
                f"the model {name.body!r} cannot be imported ({error}): {hint}"
            ) from None
    loader = getattr(module, attribute, None)
    if loader is None:
        near = did_you_mean(attribute, [key for key in vars(module) if not key.startswith("_")])
        raise InputError(f"{source} has no {attribute!r}: {near}")
    return loader


def _call_loader(loader: Any, name: ModelName, options: LoadOptions) -> Model:
    """Call a loader with the arguments it takes; a model instance is returned as it is."""
    model = loader
    if inspect.isclass(loader) or not isinstance(loader, Model):
        if not callable(loader):
            raise InputError(f"{name.body!r} is neither a model nor a function that loads one.")
        parameters = inspect.signature(loader).parameters
        needed = [
            parameter.name
            for parameter in parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        if strange := [key for key in needed if key not in LOADER_ARGUMENTS]:
            raise InputError(
                f"the loader of {name.body!r} takes {strange[0]!r}, and loaders are given "
                f"{', '.join(LOADER_ARGUMENTS)}."
            )
        _refuse_ignored(name, options, parameters)
        arguments = {
            "name": name.without_settings(),
            "device": find_device(options.device) if "device" in parameters else "",
            "dtype": options.dtype,
            "cut": options.cut,
            "trust_remote_code": options.trust_remote_code,
        }
        model = loader(**{key: value for key, value in arguments.items() if key in parameters})
    if not isinstance(model, Model):
        raise InputError(
            f"{name.body!r} gives no model: it needs a name, a fingerprint and a batch_size."
        )
    return model


def _refuse_ignored(name: ModelName, options: LoadOptions, parameters: Any) -> None:
    if options.dtype != "fp32" and "dtype" not in parameters:
        raise InputError(f"{name.body} has no choice of dtype: leave out {options.dtype}.")
    if "long" in name.settings and "cut" not in parameters:
        raise InputError(
            f"{name.body} cannot cut captions: leave out long={name.settings['long']}."
        )
    _refuse_activation(name)


def _refuse_activation(name: ModelName) -> None:
    if "activation" in name.settings and name.scheme != "openclip":
        raise InputError(f"{name.body} has no choice of activation: that is for open_clip models.")


def _check_video_form(model: Model, form: str | None) -> None:
    """Refuse a model that is not shown videos in the form that its name asks for."""
    if form is None:
        return
    shown = model.video_input if isinstance(model, VideoReader) and model.max_frames else ""
    if shown != {"own": "video", "images": "images", "frames": ""}[form]:
        raise InputError(f"{model.name} has no choice of video={form}: leave it out.")


@cache
def _find_plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
