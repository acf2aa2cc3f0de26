"""The losses as double loops over pairs, each similarity formed by itself: what the tests trust."""

from __future__ import annotations

import torch
from torch import Tensor

from contrapose.losses import EqSim, EqSimMatch


def features(size: int, width: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Unit vectors of images and captions in float64, the right ones somewhat alike."""
    make = torch.Generator().manual_seed(seed)
    image = torch.randn(size, width, generator=make, dtype=torch.float64)
    text = image + 0.8 * torch.randn(size, width, generator=make, dtype=torch.float64)
    return tuple(torch.nn.functional.normalize(it, dim=1) for it in (image, text))  # type: ignore[return-value]


def matrix(image: Tensor, text: Tensor) -> list[list[Tensor]]:
    return [[(i * t).sum() for t in text] for i in image]


def info_nce(image: Tensor, text: Tensor, scale: Tensor, same: list[int] | None = None) -> Tensor:
    s = matrix(image, text)
    size = len(s)
    total = torch.zeros((), dtype=image.dtype)
    for i in range(size):
        counted = [j for j in range(size) if j == i or same is None or same[i] != same[j]]
        across = torch.stack([scale * s[i][j] for j in counted])
        down = torch.stack([scale * s[j][i] for j in counted])
        total = total + across.logsumexp(0) + down.logsumexp(0) - 2 * scale * s[i][i]
    return total / (2 * size)


def sigmoid(image: Tensor, text: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    s = matrix(image, text)
    total = torch.zeros((), dtype=image.dtype)
    for i, row in enumerate(s):
        for j, value in enumerate(row):
            sign = 1 if i == j else -1
            total = total - torch.log(torch.sigmoid(sign * (scale * value + bias)))
    return total / len(s)


def close_pairs(image: Tensor, text: Tensor, count: int) -> list[tuple[int, int]]:
    """For each i the captions nearest to its image, then the images nearest to its caption."""
    s = (image @ text.T).detach()
    found = []
    for i in range(len(s)):
        others = [j for j in range(len(s)) if j != i]
        found += [(i, j) for j in sorted(others, key=lambda j: -float(s[i, j]))[:count]]
        found += [(i, j) for j in sorted(others, key=lambda j: -float(s[j, i]))[:count]]
    return found


def eqsim(
    image: Tensor,
    text: Tensor,
    settings: EqSim,
    scale: Tensor,
    bias: Tensor,
    close: list[tuple[int, int]] | None = None,
) -> Tensor:
    s = matrix(image, text)
    size = len(s)
    if settings.similarity == "sigmoid":
        s = [[torch.sigmoid(scale * it + bias) for it in row] for row in s]
    if settings.similarity == "softmax":
        s = [list(torch.softmax(scale * torch.stack(row), dim=0)) for row in s]
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j]
    close = close_pairs(image, text, min(settings.close, size - 1)) if close is None else close
    zero = torch.zeros((), dtype=image.dtype)

    def mean(terms: list[Tensor], count: int, margin: float) -> Tensor:
        if settings.hinge == "pair":
            return sum((torch.clamp(it - margin, min=0) for it in terms), zero) / count
        return torch.clamp(sum(terms, zero) / count - margin, min=0)

    total = zero
    if settings.v1:
        margin = settings.margin if settings.margin_v1 is None else settings.margin_v1
        near = {*close, *((j, i) for i, j in close)} if settings.v1 == "easy" else set()
        counted = [pair for pair in pairs if pair not in near]
        count = size * size if settings.v1 == "easy" else len(pairs)
        total = total + mean([(s[i][j] - s[j][i]) ** 2 for i, j in counted], count, margin)
    if settings.v2:
        counted = close if settings.v2 == "close" else pairs
        text_side = [((s[i][i] - s[i][j]) - (s[j][j] - s[j][i])) ** 2 for i, j in counted]
        image_side = [((s[i][i] - s[j][i]) - (s[j][j] - s[i][j])) ** 2 for i, j in counted]
        for terms in (text_side, image_side):
            total = total + mean(terms, len(counted), settings.margin)
    return total


def info_nce_with_negatives(
    image: Tensor,
    text: Tensor,
    negative: Tensor,
    scale: Tensor,
    *,
    has: list[list[bool]],
    same: list[int],
    same_negative: list[list[int]],
) -> Tensor:
    """CE of images over captions and all negatives, and of captions over images, pair by pair."""
    size = len(image)
    total = torch.zeros((), dtype=image.dtype)
    for i in range(size):
        others = [j for j in range(size) if j == i or same[i] != same[j]]
        wrong = [
            negative[j, k]
            for j in range(size)
            for k in range(negative.shape[1])
            if has[j][k] and same_negative[j][k] != same[i]
        ]
        across = [scale * (image[i] * it).sum() for it in [*(text[j] for j in others), *wrong]]
        down = [scale * (image[j] * text[i]).sum() for j in others]
        right = scale * (image[i] * text[i]).sum()
        total = total - torch.log(right.exp() / sum(it.exp() for it in across))
        total = total - torch.log(right.exp() / sum(it.exp() for it in down))
    return total / (2 * size)


def eqsim_of_pairs(
    image: Tensor, text: Tensor, others: list[list[int]], loss: EqSimMatch
) -> Tensor:
    """EqSim on σ(4 · cosine) of each pair with its others, the first of which are close."""

    def s(i: int, j: int) -> Tensor:
        return torch.sigmoid(4 * (image[i] * text[j]).sum())

    terms: dict[str, list[Tensor]] = {"v1": [], "text": [], "image": []}
    for i, row in enumerate(others):
        for number, j in enumerate(row):
            close = number < loss.close
            if loss.v1 == "all" or not close:
                terms["v1"].append((s(i, j) - s(j, i)) ** 2)
            if loss.v2 == "all" or close:
                terms["text"].append(((s(i, i) - s(i, j)) - (s(j, j) - s(j, i))) ** 2)
                terms["image"].append(((s(i, i) - s(j, i)) - (s(j, j) - s(i, j))) ** 2)
    total = torch.zeros((), dtype=image.dtype)
    for name, values in terms.items():
        margin = loss.margin_v1 if name == "v1" and loss.margin_v1 is not None else loss.margin
        if loss.hinge == "pair":
            hinged = [torch.relu(value - margin) for value in values]
            total = total + torch.stack(hinged).mean()
        else:
            total = total + torch.relu(torch.stack(values).mean() - margin)
    return total
