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
        "openai:MODEL?url=URL",
        ("chat", "chat:eqben", "chat:sugarcrepe", "vqa"),
        "",
        "openai:gpt-4o-mini",
    ),
    FamilyCard("one's own", "PACKAGE:CLASS or FILE.py:CLASS", (), "", "my_model.py:MyModel"),
)


def families() -> tuple[FamilyCard, ...]:
    """Every family that is known, built-in ones first."""
    return _FAMILIES
