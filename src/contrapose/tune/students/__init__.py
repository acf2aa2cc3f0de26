"""Models that can be taught: the built-in ones, and CLIP, SigLIP and BLIP of transformers."""

from __future__ import annotations

from pathlib import Path

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.names import parse_name
from contrapose.models.registry import model_names
from contrapose.tune.students.student import Inputs, Seen, Student

__all__ = ["Inputs", "Seen", "Student", "load_student"]


def load_student(name: str, *, device: str = "cpu") -> Student:
    """The model of this name, ready to be taught, in float32.

    Raises:
        InputError: there is no such model, or it is of a kind that cannot be taught here.
    """
    parsed = parse_name(name, model_names())
    if parsed.settings.get("dtype", "fp32") != "fp32":
        raise InputError(f"{name}: weights are taught in float32; --dtype bf16 computes in bf16.")
    model = load_model(name, device=device, cut=True)
    from contrapose.models.tiny.model import TinyClip

    if isinstance(model, TinyClip):
        from contrapose.tune.students.tiny import TinyStudent

        return TinyStudent(model)
    if parsed.scheme in ("hf", "folder"):
        from contrapose.models.hf.blip import Blip
        from contrapose.models.hf.dual import DualEncoder
        from contrapose.models.hf.hub import fetch
        from contrapose.tune.students.hf import BlipStudent, DualStudent

        if isinstance(model, DualEncoder | Blip):
            source: Path = fetch(parsed.body, parsed.revision, name)[0]
            if isinstance(model, Blip):
                return BlipStudent(model, source)
            return DualStudent(model, source)
    raise InputError(
        f"{name} cannot be tuned here: tiny, tiny-clip, and CLIP, SigLIP and BLIP (with its "
        "matching head) of transformers can."
    )
