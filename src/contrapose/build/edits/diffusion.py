"""Pipelines of diffusers as generators: text-to-image from one noise, and editors of images."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from contrapose.build.edits.generators import GenerationError, ImagePair, to_image
from contrapose.build.edits.recipe import EditPrompt
from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.files import did_you_mean
from contrapose.models.options import find_device, parse_dtype

if TYPE_CHECKING:
    from PIL.Image import Image

SETTINGS = ("dtype", "guidance", "share", "steps", "strength")
TEXT_TENSORS = ("prompt_embeds", "add_text_embeds", "pooled_prompt_embeds")
"""Names of embeddings of the prompt: of its tokens, and pooled."""
SHARE = 0.2
"""Share of the first steps in which both images follow the first caption."""


@dataclass(frozen=True, slots=True)
class DiffusionSettings:
    """Settings of a pipeline; None leaves its own.

    Attributes:
        steps: of denoising.
        guidance: weight of the prompt.
        share: of the steps at the start in which both images follow the first caption, so that
            they have one composition; 0 shares the noise alone.
        strength: how much an image-to-image pipeline may change.
        dtype: of the computation.
    """

    steps: int | None = None
    guidance: float | None = None
    share: float = SHARE
    strength: float | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DiffusionPairs:
    """Pairs of a text-to-image pipeline: one call from one noise for both captions.

    Attributes:
        pipeline: of diffusers.
        name: its folder or id, with settings.
        settings: of every call.
        wording: text that is sent, with {} for the caption.
    """

    pipeline: Any
    name: str
    settings: DiffusionSettings
    wording: str = "{}"
    lists: str = "eqben"
    workers: int = 1

    def generate(self, prompt: EditPrompt, size: int) -> ImagePair:
        """Denoise both captions together from the same noise."""
        texts = [self.wording.replace("{}", caption) for caption in prompt.captions]
        options = self._options(size)
        switch = self._switch_caption(texts, prompt.seed, options)
        if switch is not None:
            options["callback_on_step_end"] = switch
            options["callback_on_step_end_tensor_inputs"] = self._text_tensors()
        first, second = self._run_pair(
            [texts[0], texts[0]] if switch is not None else texts, prompt.seed, options
        )
        return first, second

    def draw(self, text: str, seed: int, size: int) -> Image:
        """Draw one caption."""
        generator = _noise_generator(seed)
        (image,) = _run(
            self.pipeline,
            self.name,
            [text],
            prompt=text,
            generator=generator,
            **self._options(size),
        )
        return image

    def _options(self, size: int) -> dict[str, Any]:
        known = _parameters(self.pipeline)
        options: dict[str, Any] = {"height": size, "width": size}
        if self.settings.steps is not None:
            options["num_inference_steps"] = self.settings.steps
        if self.settings.guidance is not None:
            options["guidance_scale"] = self.settings.guidance
        return {name: value for name, value in options.items() if name in known}

    def _run_pair(self, texts: list[str], seed: int, options: Mapping[str, Any]) -> list[Image]:
        generators = [_noise_generator(seed) for _ in texts]
        return _run(self.pipeline, self.name, texts, prompt=texts, generator=generators, **options)

    def _switch_caption(self, texts: list[str], seed: int, options: Mapping[str, Any]) -> Any:
        """Callback that gives the second image its own caption when the shared steps are over.

        Until then both images follow the first. None where no step is shared, or the pipeline
        cannot exchange embeddings. Those of the second caption are taken from a run of one step.
        """
        default = _parameters(self.pipeline).get("num_inference_steps")
        total = options.get("num_inference_steps") or getattr(default, "default", None)
        if not self._text_tensors() or not isinstance(total, int):
            return None
        steps = min(round(self.settings.share * total), total - 1)
        if steps < 1:
            return None
        second: dict[str, Any] = {}

        def record(_: Any, __: int, ___: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
            second.update(tensors)
            return {}

        def switch(_: Any, step: int, __: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
            if step + 1 != steps:
                return {}
            changed = {}
            for name, tensor in tensors.items():
                # Without guidance there are two rows; with it those of the empty prompt come first.
                changed[name] = tensor.clone()
                changed[name][-1] = second[name][-1]
            return changed

        once = {**options, "num_inference_steps": 1, "callback_on_step_end": record}
        once["callback_on_step_end_tensor_inputs"] = self._text_tensors()
        self._run_pair([texts[1], texts[1]], seed, once)
        return switch if second else None

    def _text_tensors(self) -> list[str]:
        """Embeddings of the prompt that a callback of the pipeline may exchange."""
        if "callback_on_step_end" not in _parameters(self.pipeline):
            return []
        known = getattr(self.pipeline, "_callback_tensor_inputs", ())
        return [name for name in TEXT_TENSORS if name in known]


@dataclass(frozen=True, slots=True, eq=False)
class DiffusionEditor:
    """Editor of images by a pipeline that takes an image: by instruction, or by caption.

    Attributes:
        pipeline: of diffusers.
        name: its folder or id, with settings.
        settings: of every call.
        instructed: whether it follows instructions, as InstructPix2Pix does.
    """

    pipeline: Any
    name: str
    settings: DiffusionSettings
    instructed: bool
    workers: int = 1

    def edit(self, image: Image, prompt: EditPrompt, size: int) -> Image:
        """Edit an image into that of the second caption."""
        text = prompt.instruction if self.instructed else prompt.captions[1]
        known = _parameters(self.pipeline)
        options = {
            "num_inference_steps": self.settings.steps,
            "guidance_scale": self.settings.guidance,
            "strength": self.settings.strength,
        }
        given = {name: v for name, v in options.items() if v is not None and name in known}
        generator = _noise_generator(prompt.seed)
        (result,) = _run(
            self.pipeline, self.name, [text], prompt=text, image=image, generator=generator, **given
        )
        return result


def plan_pipeline(text: str, wording: str) -> DiffusionPairs:
    """Pipeline by name alone, for a dry run; nothing is loaded.

    Raises:
        InputError: a setting is not valid.
    """
    name, _, query = text.partition("?")
    return DiffusionPairs(None, f"diffusers:{text}", _parse_settings(name, query), wording)


def load_pipeline(text: str, device: str, wording: str) -> DiffusionPairs | DiffusionEditor:
    """Load a pipeline from a folder or the hub: `FOLDER_OR_ID?steps=30&dtype=fp16`.

    Weights are read from safetensors files alone, and code that comes with them is not run.

    Raises:
        InputError: it cannot be loaded, or a setting is not valid.
        MissingExtraError: diffusers is not installed.
    """
    name, _, query = text.partition("?")
    settings = _parse_settings(name, query)
    try:
        import diffusers
    except ImportError:
        raise MissingExtraError("diffusers", "generate", "Generating images") from None
    import torch

    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    where = find_device(device)
    dtype = settings.dtype or ("fp16" if where.startswith("cuda") else "fp32")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # newer versions name it dtype
            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                name, torch_dtype=dtypes[dtype], use_safetensors=True, trust_remote_code=False
            )
        pipeline = pipeline.to(where)
    except Exception as error:  # loaders raise nearly anything
        raise InputError(
            f"{name!r} cannot be loaded as a pipeline of diffusers ({first_line(error)})."
        ) from None
    pipeline.set_progress_bar_config(disable=True)
    full = f"diffusers:{name}{f'?{query}' if query else ''}"
    known = inspect.signature(pipeline.__call__).parameters
    if "prompt" not in known:
        raise InputError(f"{name!r} is a {type(pipeline).__name__}, which takes no prompt.")
    image = known.get("image")
    if image is None or ("height" in known and "strength" not in known and _is_optional(pipeline)):
        return DiffusionPairs(pipeline, full, settings, wording)
    return DiffusionEditor(pipeline, full, settings, instructed=_follows_instructions(pipeline))


def _is_optional(pipeline: Any) -> bool:
    """Whether a pipeline that can take an image draws without one, by its class name."""
    name = type(pipeline).__name__
    return not any(word in name for word in ("Img2Img", "Inpaint", "Pix2Pix", "Edit", "Kontext"))


def _follows_instructions(pipeline: Any) -> bool:
    name = type(pipeline).__name__
    return any(word in name for word in ("InstructPix2Pix", "Edit", "Kontext"))


def _parameters(pipeline: Any) -> Mapping[str, Any]:
    return inspect.signature(pipeline.__call__).parameters


def _noise_generator(seed: int) -> Any:
    """Random generator on the CPU, so that all devices start from the same noise."""
    import torch

    return torch.Generator("cpu").manual_seed(seed)


def _run(pipeline: Any, name: str, texts: list[str], **arguments: Any) -> list[Image]:
    """Run a pipeline and return its images.

    Raises:
        GenerationError: it fails, or its safety checker blots out an image.
        InputError: there is no memory for it.
    """
    import torch

    try:
        with torch.inference_mode():
            output = pipeline(**arguments)
    except torch.OutOfMemoryError:
        raise InputError(
            f"{name} has no room on its device: choose a smaller size, or ?dtype=fp16."
        ) from None
    except Exception as error:
        raise GenerationError(f"{name} failed ({first_line(error)}).") from error
    flags = getattr(output, "nsfw_content_detected", None) or ()
    if any(flags):
        raise GenerationError(f"the safety checker of {name} blotted out an image.")
    images = [to_image(image, name) for image in output.images]
    if len(images) != len(texts):
        raise GenerationError(f"{name} returned {len(images)} images for {len(texts)} prompts.")
    return images


def _parse_settings(name: str, query: str) -> DiffusionSettings:
    values: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in SETTINGS or key in values:
            hint = did_you_mean(key, SETTINGS)
            raise InputError(f"{name!r} has an unknown or doubled setting {key!r}: {hint}")
        values[key] = value
    if not name:
        raise InputError("a pipeline lacks its name: write diffusers:FOLDER_OR_ID.")

    def number(key: str, least: float, most: float) -> float | None:
        if key not in values:
            return None
        try:
            parsed = float(values[key])
        except ValueError:
            parsed = float("nan")
        if not least <= parsed <= most:
            raise InputError(f"{key} must be from {least:g} to {most:g}, found {values[key]!r}.")
        return parsed

    steps, share = number("steps", 1, 1000), number("share", 0, 1)
    return DiffusionSettings(
        steps=None if steps is None else int(steps),
        guidance=number("guidance", 0, 100),
        share=SHARE if share is None else share,
        strength=number("strength", 0, 1),
        dtype=parse_dtype(values["dtype"]) if "dtype" in values else None,
    )
