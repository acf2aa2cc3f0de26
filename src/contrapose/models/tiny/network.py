"""Networks of the built-in models: image encoder, text encoder, and fusion decoder.

`tiny` has the architecture of BLIP (Li et al., 2022): an image encoder, a text encoder for the
contrastive score (ITC), and a text network with cross-attention for matching (ITM, bidirectional
attention) and language modeling (LM, causal attention). `tiny-clip` has the two encoders alone, as
CLIP does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.models.exact import normalize_rows

if TYPE_CHECKING:
    from contrapose.models.packing import PackedCaptions

PAD, START, END, MATCH = range(4)
"""Padding; start of a caption for the language model; its end; start of a caption to match."""
SPECIAL = 4
BYTES = 256
_PIECES = re.compile(r"\w+(?:-\w+)*|[^\w\s]")
"""A word, with its hyphens; or a punctuation mark."""


class Tokenizer:
    """Word-level tokenizer with byte fallback: special tokens, 256 bytes, then the words.

    A spelled word is followed by the byte of a space, so that two of them never run together.
    """

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        self._number = {word: SPECIAL + BYTES + i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return SPECIAL + BYTES + len(self.words)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without start and end; case and spacing do not count."""
        tokens: list[int] = []
        for piece in _PIECES.findall(text.lower()):
            number = self._number.get(piece)
            tokens += self.spell(piece) if number is None else [number]
        return tokens

    def spell(self, word: str) -> list[int]:
        """Byte tokens of a word."""
        return [SPECIAL + byte for byte in f"{word} ".encode(errors="surrogatepass")]

    def decode(self, tokens: Sequence[int]) -> str:
        """Decode tokens to text."""
        pieces: list[str] = []
        spelled = bytearray()
        for token in tokens:
            if SPECIAL <= token < SPECIAL + BYTES:
                spelled.append(token - SPECIAL)
                continue
            if spelled:
                pieces.append(spelled.decode(errors="replace").strip())
                spelled = bytearray()
            if token >= SPECIAL + BYTES:
                pieces.append(self.words[token - SPECIAL - BYTES])
        if spelled:
            pieces.append(spelled.decode(errors="replace").strip())
        return " ".join(pieces)


KeyValue: TypeAlias = tuple[Tensor, Tensor]
"""Keys and values of a sequence."""


class Attention(nn.Module):
    """Multi-head attention of a sequence to itself or to another."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, other: Tensor | KeyValue | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Attend from `x` to `other` (or itself); `mask` is true where attention is allowed."""
        source = x if other is None else other
        query = self._split(self.query(x))
        key, value = source if isinstance(source, tuple) else self.keys_values(source)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def keys_values(self, source: Tensor) -> KeyValue:
        """Keys and values (n, heads, t, …) of a sequence, for reuse."""
        key, value = self.key_value(source).chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class TransformerBlock(nn.Module):
    """Transformer block: self-attention, optional cross-attention, and an MLP."""

    def __init__(self, width: int, heads: int, *, cross: bool = False):
        super().__init__()
        self.norm_self = nn.LayerNorm(width)
        self.attend = Attention(width, heads)
        self.norm_cross = nn.LayerNorm(width) if cross else None
        self.look = Attention(width, heads) if cross else None
        self.norm_think = nn.LayerNorm(width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(
        self, x: Tensor, mask: Tensor | None = None, image: Tensor | KeyValue | None = None
    ) -> Tensor:
        """Apply the block to the residual stream."""
        x = x + self.attend(self.norm_self(x), mask=mask)
        if self.look is not None and self.norm_cross is not None:
            x = x + self.look(self.norm_cross(x), image)
        return x + self.think(self.norm_think(x))  # type: ignore[no-any-return]


def initialize_weights(module: nn.Module) -> None:
    """Initialize weights with small normal values, as in BERT and ViT."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Embedding):
            nn.init.normal_(layer.weight, std=0.02)
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def arange_like(x: Tensor) -> Tensor:
    """Indices 0, 1, 2, … along the second dimension of `x`."""
    return torch.arange(x.shape[1], device=x.device)


@dataclass(frozen=True, slots=True)
class TinyConfig:
    """Sizes of a network.

    Attributes:
        vocabulary: number of tokens.
        width: of the residual stream.
        heads: number of attention heads.
        image_layers: blocks of the image encoder.
        text_layers: blocks of the text encoder.
        fusion_layers: blocks of the fusion decoder; 0 for a dual encoder.
        embedding: dimension of image and caption vectors.
        image_size: side of an image in pixels.
        patch: side of a patch in pixels; a multiple of 4.
        context: context length, special tokens included.
    """

    vocabulary: int
    width: int = 192
    heads: int = 6
    image_layers: int = 6
    text_layers: int = 3
    fusion_layers: int = 5
    embedding: int = 128
    image_size: int = 96
    patch: int = 12
    context: int = 64

    def as_dict(self) -> dict[str, int]:
        """Sizes as a dictionary for the weight file."""
        return asdict(self)


class TinyImageEncoder(nn.Module):
    """Image encoder: a convolutional stem makes patch tokens, transformer blocks mix them.

    Position embeddings are initialized with sines and cosines of row and column, so that locations
    can be read off the tokens from the first training step on.
    """

    def __init__(self, config: TinyConfig):
        super().__init__()
        width, stride = config.width, config.patch // 4
        self.stem = nn.Sequential(
            nn.Conv2d(3, width // 4, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(width // 4, width // 2, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(width // 2, width, 3, stride=stride, padding=(4 - stride) // 2),
        )  # fmt: skip
        self.place = nn.Parameter(grid_positions(config.image_size // config.patch, width))
        self.blocks = nn.ModuleList(
            TransformerBlock(width, config.heads) for _ in range(config.image_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, config.embedding, bias=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Tokens (n, t, width) of pixels (n, 3, h, w) in −1 … 1."""
        x = self.stem(pixels).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x)
        return self.norm(x)  # type: ignore[no-any-return]

    def embed(self, tokens: Tensor) -> Tensor:
        """One unit vector per image."""
        return normalize_rows(self.project(tokens.mean(dim=1)))


def grid_positions(side: int, width: int) -> Tensor:
    """(side², width) sinusoidal position embeddings of rows and columns."""
    quarter = width // 4
    rates = math.pi / side * 2.0 ** (torch.arange(quarter) * (math.log2(side) / quarter))
    angles = torch.arange(side)[:, None] * rates
    wave = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = wave[:, None].expand(-1, side, -1), wave[None].expand(side, -1, -1)
    return 0.5 * torch.cat([rows, columns], dim=2).flatten(0, 1)


class TinyTextEncoder(nn.Module):
    """Bidirectional text encoder with mean pooling."""

    def __init__(self, config: TinyConfig):
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.place = nn.Parameter(torch.randn(config.context, config.width) * 0.02)
        self.blocks = nn.ModuleList(
            TransformerBlock(config.width, config.heads) for _ in range(config.text_layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.project = nn.Linear(config.width, config.embedding, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """One unit vector per caption, of tokens (n, l) padded with PAD."""
        real = tokens != PAD
        x = self.words(tokens) + self.place[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, mask=real[:, None, None, :])
        share = real[:, :, None].to(x.dtype)
        mean = (self.norm(x) * share).sum(dim=1) / share.sum(dim=1)
        return normalize_rows(self.project(mean))


class FusionDecoder(nn.Module):
    """Text network with cross-attention to the image: match logits and next-token logits.

    Position embeddings are added to the image tokens again, as in DETR (Carion et al., 2020), so
    that locations reach the words.
    """

    def __init__(self, config: TinyConfig):
        super().__init__()
        side = config.image_size // config.patch
        self.where = nn.Parameter(grid_positions(side, config.width))
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.place = nn.Parameter(torch.randn(config.context, config.width) * 0.02)
        self.blocks = nn.ModuleList(
            TransformerBlock(config.width, config.heads, cross=True)
            for _ in range(config.fusion_layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.judge = nn.Linear(config.width, 1)

    def match(self, tokens: Tensor, image: Tensor) -> Tensor:
        """Match logits (n,) of captions that begin with MATCH."""
        real = (tokens != PAD)[:, None, None, :]
        return self.judge(self._run(tokens, image, real)[:, 0]).squeeze(-1)  # type: ignore[no-any-return]

    def logits(self, tokens: Tensor, image: Tensor) -> Tensor:
        """Logits (n, l, vocabulary) of the token after each, of captions that begin with START."""
        return self.token_logits(self.states(tokens, image))

    def states(self, tokens: Tensor, image: Tensor) -> Tensor:
        """Hidden states (n, l, width) after each token of captions that begin with START."""
        steps = arange_like(tokens)
        earlier = (steps[:, None] >= steps)[None, None]
        return self._run(tokens, image, earlier)

    def packed_states(self, packed: PackedCaptions, tensors: Sequence[Tensor]) -> Tensor:
        """Hidden states (r, l, width) of packed captions.

        Args:
            packed: the captions.
            tensors: keys and values of each row's image, from `keys_values`.
        """
        x = self.words(packed.tokens) + self.place[packed.positions]
        mask = packed.attention_mask()
        for i, block in enumerate(self.blocks):
            x = block(x, mask=mask, image=(tensors[2 * i], tensors[2 * i + 1]))
        return self.norm(x)  # type: ignore[no-any-return]

    def keys_values(self, image: Tensor) -> tuple[Tensor, ...]:
        """Keys and values of images (n, t, width), block after block."""
        image = image + self.where
        looks: list[Any] = [block.look for block in self.blocks]
        return tuple(part for look in looks for part in look.keys_values(image))

    def token_logits(self, states: Tensor) -> Tensor:
        """Next-token logits after each state."""
        return states @ self.words.weight.T

    def _run(self, tokens: Tensor, image: Tensor, mask: Tensor) -> Tensor:
        x = self.words(tokens) + self.place[: tokens.shape[1]]
        image = image + self.where
        for block in self.blocks:
            x = block(x, mask=mask, image=image)
        return self.norm(x)  # type: ignore[no-any-return]


class TinyNetwork(nn.Module):
    """Image encoder, text encoder and fusion decoder; a dual encoder has no fusion decoder."""

    def __init__(self, config: TinyConfig):
        super().__init__()
        self.config = config
        self.image = TinyImageEncoder(config)
        self.text = TinyTextEncoder(config)
        self.fusion = FusionDecoder(config) if config.fusion_layers else None
        initialize_weights(self)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(weight.numel() for weight in self.parameters())
