"""The kinds of models that can be asked, for people who look for one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FamilyCard:
    """A family of models.

    Attributes:
        name: such as `CLIP`.
        pattern: how its models are named.
        scores: what they give.
        extra: what must be installed with pip for it, an extra of this package; empty for none.
        example: a name that can be typed.
    """

    name: str
    pattern: str
    scores: tuple[str, ...]
    extra: str
    example: str


_HF = "hf:ORG/NAME[@REVISION] or a folder"
_BOTH = ("itc", "itm")

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
    FamilyCard("joined encoders", "joined:FOLDER", ("itc",), "hf", "joined:my-heads"),
    FamilyCard("one's own", "PACKAGE:CLASS or FILE.py:CLASS", (), "", "my_model.py:MyModel"),
)


def families() -> tuple[FamilyCard, ...]:
    """Every family that is known, built-in ones first."""
    return _FAMILIES
