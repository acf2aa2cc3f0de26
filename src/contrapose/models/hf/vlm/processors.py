"""Processor of a model with its parts: tokenizer, images, and videos where they can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from contrapose.errors import InputError, first_line
from contrapose.models.hf.checkpoint import silence_transformers

if TYPE_CHECKING:
    from contrapose.models.hf.checkpoint import Checkpoint

SEVERAL_IMAGES = ("idefics2", "idefics3", "llava_onevision", "qwen2_5_vl", "qwen2_vl", "smolvlm")
"""Model types trained with several images in one turn: they may be given frames of a video so."""
MAX_FRAMES = 9999
"""Most frames by a video input, where the context leaves room for them."""


@dataclass(frozen=True, slots=True)
class VideoSupport:
    """How a model is shown a video.

    Attributes:
        form: `video` by the library's video processor, `images` as the images of one turn; empty
            where it is shown one frame after the other.
        processor: the library's video processor; None where it is not used.
        obstacle: sentence that says why the video input cannot be used; empty where it can.
    """

    form: str
    processor: Any = None
    obstacle: str = ""


def find_video_support(checkpoint: Checkpoint, attributes: Sequence[str]) -> VideoSupport:
    """Choose how a model is shown a video, by its options and by what its processor takes.

    Args:
        checkpoint: the model; without an option it is shown videos by its own input, if it has one.
        attributes: names of the parts of its processor.

    Raises:
        InputError: its own input is asked for, and it has none or cannot be used.
    """
    wish = checkpoint.options.video
    several = str(checkpoint.config.model_type) in SEVERAL_IMAGES
    takes_videos = any("video_processor" in name for name in attributes)
    if wish in ("images", "frames"):
        return VideoSupport("images" if wish == "images" else "")
    if not takes_videos and wish is None:
        return VideoSupport("images" if several else "")
    if not takes_videos:
        raise InputError(f"{checkpoint.name} has no video input: leave out video=own.")
    try:
        images = "video=images for the images of one turn, or " if several else ""
        require_torchvision(
            checkpoint.name,
            f", or add to the model's name {images}video=frames for the mean of the frames' scores",
        )
        return VideoSupport("video", checkpoint.video_processor())
    except InputError as error:
        if wish == "own":
            raise
        return VideoSupport("video", obstacle=error.message)


def require_torchvision(name: str, otherwise: str = "") -> None:
    """Require torchvision, without which transformers has no video processor.

    Args:
        name: of the model.
        otherwise: what else the user may do, as the end of the sentence.

    Raises:
        InputError: it is not installed.
    """
    if find_spec("torchvision") is None:
        raise InputError(
            f"{name} reads videos by a processor of transformers that needs torchvision, which is "
            f"not installed: install the torchvision that fits torch{otherwise}."
        )


def load_processor(checkpoint: Checkpoint, video_processor: Any = None) -> Any:
    """Load the library's processor of a checkpoint.

    Args:
        checkpoint: the model.
        video_processor: its video part, which needs torchvision; None goes without.

    Raises:
        InputError: there is none, it has no chat template, or it cannot be loaded.
    """
    kind = find_processor_class(checkpoint)
    parts = {"tokenizer": checkpoint.tokenizer(), "image_processor": checkpoint.image_processor()}
    if video_processor is not None:
        parts["video_processor"] = video_processor
    names = kind.get_attributes()
    if missing := [name for name in names if name not in parts and "video" not in name]:
        raise InputError(
            f"{checkpoint.name} needs a {missing[0]}, which is not shown anything here."
        )
    try:
        with silence_transformers():
            settings, _ = kind.get_processor_dict(checkpoint.source, local_files_only=True)
            processor: Any = _drop_video(kind).from_args_and_dict(
                [parts.get(name) for name in names], settings
            )
    except Exception as error:  # the library raises almost anything here
        raise InputError(
            f"the processor of {checkpoint.name} cannot be loaded ({first_line(error)})."
        ) from None
    if not (getattr(processor, "chat_template", None) or parts["tokenizer"].chat_template):
        raise InputError(
            f"{checkpoint.name} has no chat template, by which it would be asked: put the one it "
            "was trained with into its folder as chat_template.jinja."
        )
    return processor


def find_processor_class(checkpoint: Checkpoint) -> Any:
    """Class of the library's processor of images and text.

    Raises:
        InputError: there is none.
    """
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
    from transformers.processing_utils import ProcessorMixin

    kind: Any = PROCESSOR_MAPPING.get(type(checkpoint.config), None)
    if kind is None or not issubclass(kind, ProcessorMixin):
        raise InputError(
            f"{checkpoint.name} has no processor of images and text that transformers knows."
        )
    return kind


def _drop_video(kind: Any) -> Any:
    """Subclass of a processor class that accepts any video part, also none."""

    class WithoutVideo(kind):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if "video" in argument_name:
                return None
            return super().check_argument_for_proper_class(argument_name, argument)

    WithoutVideo.__name__ = kind.__name__
    return WithoutVideo
