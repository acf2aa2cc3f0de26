"""The built-in networks: an image encoder, a text encoder, and a decoder that looks at the image.

`tiny` is built like BLIP (Li et al., 2022): one image encoder, a text encoder for the contrastive
score (ITC), and a text network with cross-attention that judges a caption (ITM, every token sees
every other) or continues it (LM, every token sees the earlier ones). `tiny-clip` has the two
encoders alone, as CLIP does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from contrapose.models.tiny.layers import Block, arange_like, initialise, unit
from contrapose.models.tiny.tokeniser import PAD

if TYPE_CHECKING:
    from contrapose.models.packing import Packed


@dataclass(frozen=True, slots=True)
class Config:
    """The size of a network.

    Attributes:
        vocabulary: number of tokens.
        width: of the residual stream.
        heads: of attention.
        image_layers: blocks of the image encoder.
        text_layers: blocks of the text encoder.
        fusion_layers: blocks of the network with cross-attention; 0 for a dual encoder.
        embedding: length of the vectors that are compared.
        image_size: pixels a side.
        patch: pixels a side of what becomes one token; a multiple of 4.
        context: most tokens of a caption, start and end included.
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
        """For the weight file."""
        return asdict(self)


class ImageEncoder(nn.Module):
    """Three strided convolutions make a token of each patch; blocks mix the tokens.

    Places begin as sines and cosines of row and column, so that where a thing is can be read off
    its tokens from the first step on.
    """

    def __init__(self, config: Config):
        super().__init__()
        width, stride = config.width, config.patch // 4
        self.stem = nn.Sequential(
            nn.Conv2d(3, width // 4, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(width // 4, width // 2, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(width // 2, width, 3, stride=stride, padding=(4 - stride) // 2),
        )  # fmt: skip
        self.place = nn.Parameter(grid_places(config.image_size // config.patch, width))
        self.blocks = nn.ModuleList(Block(width, config.heads) for _ in range(config.image_layers))
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, config.embedding, bias=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Tokens (n, t, width) of pixels (n, 3, h, w) in −1 … 1."""
        x = self.stem(pixels).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x)
        return self.norm(x)  # type: ignore[no-any-return]

    def embed(self, tokens: Tensor) -> Tensor:
        """One unit vector an image."""
        return unit(self.project(tokens.mean(dim=1)))


def grid_places(side: int, width: int) -> Tensor:
    """(side², width) sines and cosines of row and column at several wavelengths."""
    quarter = width // 4
    rates = math.pi / side * 2.0 ** (torch.arange(quarter) * (math.log2(side) / quarter))
    angles = torch.arange(side)[:, None] * rates
    wave = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = wave[:, None].expand(-1, side, -1), wave[None].expand(side, -1, -1)
    return 0.5 * torch.cat([rows, columns], dim=2).flatten(0, 1)


class TextEncoder(nn.Module):
    """Blocks in which every token sees every other; the mean of the tokens is the caption."""

    def __init__(self, config: Config):
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.place = nn.Parameter(torch.randn(config.context, config.width) * 0.02)
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads) for _ in range(config.text_layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.project = nn.Linear(config.width, config.embedding, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """One unit vector a caption, of tokens (n, l) padded with PAD."""
        real = tokens != PAD
        x = self.words(tokens) + self.place[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, mask=real[:, None, None, :])
        share = real[:, :, None].to(x.dtype)
        mean = (self.norm(x) * share).sum(dim=1) / share.sum(dim=1)
        return unit(self.project(mean))


class Fusion(nn.Module):
    """Text that looks at the image: judged as a whole, or continued word by word.

    What it looks at is told its place once more, as in DETR (Carion et al., 2020): where a thing is
    must reach the words whatever the image encoder's blocks made of it.
    """

    def __init__(self, config: Config):
        super().__init__()
        side = config.image_size // config.patch
        self.where = nn.Parameter(grid_places(side, config.width))
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.place = nn.Parameter(torch.randn(config.context, config.width) * 0.02)
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, cross=True) for _ in range(config.fusion_layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.judge = nn.Linear(config.width, 1)

    def match(self, tokens: Tensor, image: Tensor) -> Tensor:
        """Match logits (n,) of captions that begin with MATCH."""
        real = (tokens != PAD)[:, None, None, :]
        return self.judge(self._run(tokens, image, real)[:, 0]).squeeze(-1)  # type: ignore[no-any-return]

    def logits(self, tokens: Tensor, image: Tensor) -> Tensor:
        """Logits (n, l, vocabulary) of the token after each, of captions that begin with START."""
        return self.after(self.states(tokens, image))

    def states(self, tokens: Tensor, image: Tensor) -> Tensor:
        """(n, l, width) what is known after each token of captions that begin with START."""
        steps = arange_like(tokens)
        earlier = (steps[:, None] >= steps)[None, None]
        return self._run(tokens, image, earlier)

    def packed(self, packed: Packed, kept: Sequence[Tensor]) -> Tensor:
        """(r, l, width) the same for captions that share a row, each of which sees itself alone.

        Args:
            packed: the captions.
            kept: of each row's image, as `keep` made it.
        """
        x = self.words(packed.tokens) + self.place[packed.places]
        mask = packed.allowed()
        for i, block in enumerate(self.blocks):
            x = block(x, mask=mask, image=(kept[2 * i], kept[2 * i + 1]))
        return self.norm(x)  # type: ignore[no-any-return]

    def keep(self, image: Tensor) -> tuple[Tensor, ...]:
        """Keys and values of images (n, t, width), block after block."""
        image = image + self.where
        looks: list[Any] = [block.look for block in self.blocks]
        return tuple(part for look in looks for part in look.keyed(image))

    def after(self, states: Tensor) -> Tensor:
        """Logits of the token after each state."""
        return states @ self.words.weight.T

    def _run(self, tokens: Tensor, image: Tensor, mask: Tensor) -> Tensor:
        x = self.words(tokens) + self.place[: tokens.shape[1]]
        image = image + self.where
        for block in self.blocks:
            x = block(x, mask=mask, image=image)
        return self.norm(x)  # type: ignore[no-any-return]


class Network(nn.Module):
    """All of it; a dual encoder has no fusion part."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.image = ImageEncoder(config)
        self.text = TextEncoder(config)
        self.fusion = Fusion(config) if config.fusion_layers else None
        initialise(self)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(weight.numel() for weight in self.parameters())
