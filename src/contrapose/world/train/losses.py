"""The three losses of BLIP: contrast, match, continue."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.models.tiny.network import Network
from contrapose.models.tiny.tokeniser import MATCH, PAD
from contrapose.world.scene import COLORS, SHAPES
from contrapose.world.train.hard_pairs import drawn, told_apart


def contrast(
    network: Network, image: Tensor, text: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Symmetric InfoNCE over the batch; a caption that stands twice in it is no negative.

    Returns:
        The loss, and the similarities (b, b) with the same captions taken out off the diagonal.
    """
    same = (tokens[:, None] == tokens[None]).all(dim=-1)
    same.fill_diagonal_(False)
    with torch.autocast(image.device.type, enabled=False):
        logits = network.log_scale.exp().clamp(max=100) * (image.float() @ text.float().T)
    logits = logits.masked_fill(same, -1e4)
    aim = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, aim) + F.cross_entropy(logits.T, aim)) / 2, logits.detach()


class Patches(nn.Module):
    """Colour and shape of what is seen in each patch, told from its token; left behind afterwards.

    BLIP's image encoder comes to the three losses already trained on labelled images. This one
    starts from nothing, and this loss stands in for that training.
    """

    def __init__(self, width: int):
        super().__init__()
        self.tell = nn.Linear(width, len(COLORS) + 1 + len(SHAPES) + 1)

    def forward(self, seen: Tensor, patches: Tensor) -> Tensor:
        """Cross-entropy of both, over all patches."""
        colors, shapes = self.tell(seen).float().split([len(COLORS) + 1, len(SHAPES) + 1], dim=-1)
        return F.cross_entropy(colors.flatten(0, 1), patches[..., 0].flatten()) + F.cross_entropy(
            shapes.flatten(0, 1), patches[..., 1].flatten()
        )


def match(network: Network, seen: Tensor, tokens: Tensor, logits: Tensor) -> Tensor:
    """Right pairs against hard ones: for each image a similar caption, for each caption an image.

    Negatives are drawn by the contrastive similarity, as in ALBEF and BLIP.
    """
    fusion = network.fusion
    assert fusion is not None  # noqa: S101 - only called for networks that have one
    judged = tokens.clone()
    judged[:, 0] = MATCH
    away = logits.clone().fill_diagonal_(-1e4)
    other_text, other_image = drawn(away), drawn(away.T)
    answers = fusion.match(
        torch.cat([judged, judged[other_text], judged]),
        torch.cat([seen, seen, seen[other_image]]),
    ).float()
    return told_apart(answers, len(tokens)).mean()


def go_on(network: Network, states: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy of each next token of the caption, its end included."""
    fusion = network.fusion
    assert fusion is not None  # noqa: S101 - only called for networks that have one
    logits = fusion.after(states)[:, :-1].float()
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)


class Places(nn.Module):
    """Where the thing is that a noun names, told from the noun's state; left behind afterwards.

    Without it "left" and "right" stayed at chance for millions of scenes: to tell them the network
    must look at the thing just named and read its place off, and neither pays without the other.
    """

    BINS = 12

    def __init__(self, width: int):
        super().__init__()
        self.tell = nn.Linear(width, 2 * self.BINS)

    def forward(self, states: Tensor, places: Tensor) -> Tensor:
        """Cross-entropy of column and row among `BINS` each, over the ends of nouns."""
        told = self.tell(states).float().unflatten(-1, (2, self.BINS))
        aim = (places * self.BINS).long().clamp(0, self.BINS - 1)
        aim = torch.where(places >= 0, aim, -1)
        return 2 * F.cross_entropy(told.flatten(0, 2), aim.flatten(), ignore_index=-1)
