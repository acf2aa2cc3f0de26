"""A CLIP of random weights, saved as a downloaded one lies on disk: same shapes, same files."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SHAPES: dict[str, dict[str, Any]] = {
    "vit-b-32": {},  # what CLIPConfig is by default
    "vit-l-14": {
        "projection_dim": 768,
        "text_config": {
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_attention_heads": 12,
            "projection_dim": 768,
        },
        "vision_config": {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "patch_size": 14,
            "projection_dim": 768,
        },
    },
}
SIMPLE_BPE = "bpe_simple_vocab_16e6.txt.gz"
"""CLIP's merges, as open_clip ships them."""


def make_weights(folder: Path, shape: str, bpe: Path | None = None, device: str = "cpu") -> Path:
    """The model's folder, made if it is not there yet."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    place = folder / shape
    if (place / "preprocessor_config.json").exists():
        return place
    torch.manual_seed(0)
    with torch.device(device):
        model = CLIPModel(CLIPConfig(**SHAPES[shape]))
    model.save_pretrained(place)
    _tokeniser(bpe or _shipped_bpe()).save_pretrained(place)
    _image_processor().save_pretrained(place)
    return place


def _image_processor() -> Any:
    if find_spec("torchvision") is None:
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

        return CLIPImageProcessorPil()
    from transformers import CLIPImageProcessor

    return CLIPImageProcessor()


def _tokeniser(bpe: Path) -> Any:
    from transformers import CLIPTokenizer

    lines = gzip.decompress(bpe.read_bytes()).decode().split("\n")
    merges = [tuple(line.split()) for line in lines[1 : 49152 - 256 - 2 + 1]]
    letters = list(_byte_letters().values())
    words = letters + [letter + "</w>" for letter in letters]
    words += ["".join(merge) for merge in merges] + ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {word: i for i, word in enumerate(words)}
    kind: Any = CLIPTokenizer  # the library takes pairs, whatever its hints say
    return kind(vocab=vocabulary, merges=merges, model_max_length=77)


def _byte_letters() -> dict[int, str]:
    """A printable letter for each byte, in the order in which CLIP numbers them."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    plain += range(ord("®"), ord("ÿ") + 1)
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {
        byte: chr(256 + i) for i, byte in enumerate(others)
    }


def _shipped_bpe() -> Path:
    found = find_spec("open_clip")
    if found is None or found.origin is None:
        raise SystemExit(
            f"CLIP's merges are missing: install open_clip_torch, or --bpe {SIMPLE_BPE}"
        )
    return Path(found.origin).parent / SIMPLE_BPE
