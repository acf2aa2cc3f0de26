"""A model's processor: its tokeniser, its image preprocessing by Pillow, and its chat template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contrapose.errors import InputError
from contrapose.models.hf.quiet import quiet

if TYPE_CHECKING:
    from contrapose.models.hf.checkpoint import Checkpoint


def open_processor(checkpoint: Checkpoint) -> Any:
    """The library's processor of a checkpoint, without what it has for video.

    Video would need torchvision, and no video is shown here.

    Raises:
        InputError: there is none, it has no chat template, or it cannot be loaded.
    """
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
    from transformers.processing_utils import ProcessorMixin

    kind: Any = PROCESSOR_MAPPING.get(type(checkpoint.config), None)
    if kind is None or not issubclass(kind, ProcessorMixin):
        raise InputError(
            f"{checkpoint.name} has no processor of images and text that transformers knows."
        )
    parts = {"tokenizer": checkpoint.tokenizer(), "image_processor": checkpoint.image_processor()}
    names = kind.get_attributes()
    if missing := [name for name in names if name not in parts and "video" not in name]:
        raise InputError(
            f"{checkpoint.name} needs a {missing[0]}, which is not shown anything here."
        )
    try:
        with quiet():
            facts, _ = kind.get_processor_dict(checkpoint.source, local_files_only=True)
            made: Any = _without_video(kind).from_args_and_dict(
                [parts.get(name) for name in names], facts
            )
    except Exception as error:  # the library raises almost anything here
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(
            f"the processor of {checkpoint.name} cannot be loaded ({first})."
        ) from None
    if not (getattr(made, "chat_template", None) or parts["tokenizer"].chat_template):
        raise InputError(
            f"{checkpoint.name} has no chat template, by which it would be asked: put the one it "
            "was trained with into its folder as chat_template.jinja."
        )
    return made


def _without_video(kind: Any) -> Any:
    """A processor class that does without its part for video."""

    class WithoutVideo(kind):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if argument is None and "video" in argument_name:
                return None
            return super().check_argument_for_proper_class(argument_name, argument)

    WithoutVideo.__name__ = kind.__name__
    return WithoutVideo
