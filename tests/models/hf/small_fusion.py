"""Small matchers of random weights, saved in folders as downloaded ones lie there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor, nn

from contrapose.models.conformance import model_checks
from contrapose.models.hf import load
from contrapose.models.options import LoadOptions

hf: Any = transformers
"""The library, without its types: many of its classes have none that are of use."""
WORDS = "a the red blue green cube ball dog cat on under of left right two and is behind ##s yes no"
CAPTIONS = (
    "a red cube on the blue ball",
    "two dogs",
    "the green cat is behind a ball and under the red cubes of the left dog",
    "a blue cube",
)


def picture(width: int, height: int, seed: int = 0, mode: str = "RGB") -> Image.Image:
    """Smooth colours and a little noise, so that resizing matters."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    array = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    noisy = np.clip(array + rng.integers(-8, 8, array.shape), 0, 255).astype(np.uint8)
    return Image.fromarray(noisy).convert(mode)


def bert_tokenizer(longest: int = 512) -> Any:
    """A word-piece tokeniser of few words."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
    return hf.BertTokenizer(
        vocab={word: i for i, word in enumerate(words)}, model_max_length=longest
    )


def roberta_tokenizer(longest: int = 512) -> Any:
    """A byte-pair tokeniser that knows bytes alone."""
    letters = sorted(ByteLevel.alphabet())
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters]
    return hf.RobertaTokenizer(
        vocab={word: i for i, word in enumerate(words)}, merges=[], model_max_length=longest
    )


def strong(network: nn.Module, seed: int = 0) -> None:
    """Weights large enough that images and captions tell, also in embeddings that begin at 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim >= 2:
                fan = weight.shape[-1] if weight.ndim == 2 else weight[0].numel()
                spread = 0.5 if "embed" in name or "token" in name else 1.4 * fan**-0.5
                weight.copy_(torch.randn(weight.shape, generator=generator) * spread)
            elif "logit" not in name and "orm" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)


def saved(
    folder: Path, network: Any, tokenizer: Any, processor: Any, *, randomise: bool = True
) -> Path:
    """A folder with all that a model needs."""
    if randomise:
        strong(network)
    network.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def opened(folder: Path, **options: Any) -> Any:
    """The adapter of a folder."""
    return load(str(folder), None, "small", LoadOptions(**options))


def check_cut_captions(load: Callable[[], Any]) -> None:
    """Check a model that cuts captions: only these checks differ from those of one that refuses."""
    checks = {str(check): check for check in model_checks(load)}
    for name in ("context", "token-counts", "cut-caption", "odd-captions"):
        checks[name]()


def same(found: Tensor, wanted: Tensor) -> None:
    """Equal to 1e-4."""
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def one_by_one(model: Any, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
    """Each pair asked on its own."""
    return torch.cat([model.match([i], [t]) for i, t in zip(images, texts, strict=True)])


def count_calls(module: nn.Module) -> list[int]:
    """Batch sizes that a module is called with from now on."""
    seen: list[int] = []

    def note(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        values = given[0] if given else named["pixel_values"]
        seen.append(len(values))

    module.register_forward_pre_hook(note, with_kwargs=True)
    return seen


def forget_weights(folder: Path, prefix: str) -> None:
    """Take weights out of a saved folder."""
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    kept = {name: w for name, w in load_file(file).items() if not name.startswith(prefix)}
    save_file(kept, file, metadata={"format": "pt"})
