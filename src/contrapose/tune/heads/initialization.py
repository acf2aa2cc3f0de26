"""Initialization of heads by canonical correlation of image and caption features.

Regularised canonical correlation (Hotelling 1936; Vinod 1976): features are centred and whitened a
side, C = A·cov(image, text)·B with A = (Σ_image + r·m·1)^−½ and B alike, m the mean variance; the
singular vectors of C, weighted by a power of their correlation, are linear heads in closed form. On
few images this is better than what gradient descent finds from random weights, and as whitened
features are shrunk most where the images vary least, it is also the space in which to learn: those
directions, which are noise, then move last.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contrapose.errors import InputError

HEAD_RMS = 0.1
"""Root mean square of a head's numbers at the start. Only directions count, so that this says how
far a step of AdamW turns them: by about a hundredth at a rate of 1e-3."""

CORRELATION_POWER = 0.75
"""Of the correlations: 0 takes every direction alike, 1 trusts them by how well they correlate."""


@dataclass(frozen=True, slots=True)
class Whitening:
    """Centering and whitening of one side's features: `(x − mean) @ matrix`."""

    mean: Tensor
    matrix: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Whiten features (n, p)."""
        return (features - self.mean) @ self.matrix


@dataclass(frozen=True, slots=True)
class HeadInitialization:
    """Whitening of both sides, and initial heads on whitened features, (d, p) and (d, q).

    The first biases (d,) are zero where none are given.
    """

    image: Whitening
    text: Whitening
    image_head: Tensor
    text_head: Tensor
    image_bias: Tensor | None = None
    text_bias: Tensor | None = None


def canonical_initialization(
    images: Tensor,
    texts: Tensor,
    owners: Tensor,
    width: int,
    *,
    ridges: tuple[float, float] = (1.0, 0.3),
    power: float = CORRELATION_POWER,
    generator: torch.Generator | None = None,
) -> HeadInitialization:
    """Initial heads by regularized canonical correlation, in closed form and float64.

    Args:
        images: (n, p) features.
        texts: (m, q) features.
        owners: (m,) the image of each caption.
        width: the heads' common width; where it is above p or q, the other directions are small
            random ones.
        ridges: added to the variances of images and captions, in parts of their mean.
        power: see `POWER`.
        generator: of the random directions, on the CPU.

    Raises:
        InputError: a side's features are all alike.
    """
    # On the CPU, whose sums are always in the same order: the same start on every device.
    device = images.device
    images, texts, owners = images.cpu(), texts.cpu(), owners.cpu()
    count = torch.bincount(owners, minlength=len(images)).double()
    left, image_mean = _center(images, count)
    right, text_mean = _center(texts, torch.ones(len(texts)).double())
    sums = torch.zeros(len(images), texts.shape[1]).double().index_add_(0, owners, right)
    image_root = _inverse_root((left.T * count) @ left / len(texts), ridges[0], "images")
    text_root = _inverse_root(right.T @ right / len(texts), ridges[1], "captions")
    both = image_root @ (left.T @ sums / len(texts)) @ text_root
    across, strength, down = torch.linalg.svd(both, full_matrices=False)
    kept = min(width, len(strength))
    weight = strength[:kept, None] ** power
    heads = [_scale_to_rms(across[:, :kept].T * weight), _scale_to_rms(down[:kept] * weight)]
    heads = [_pad_with_noise(head, width, generator) for head in heads]
    return HeadInitialization(
        Whitening(image_mean.float().to(device), image_root.float().to(device)),
        Whitening(text_mean.float().to(device), text_root.float().to(device)),
        *(head.float().contiguous().to(device) for head in heads),
    )


def identity_initialization(start: HeadInitialization) -> HeadInitialization:
    """Initial heads that undo the whitening, so that every vector keeps its direction.

    For encoders that share a space already, as those of a CLIP: training goes on from there.

    Raises:
        InputError: the two sides' vectors are not of one width.
    """
    wide = len(start.image.mean), len(start.text.mean)
    if wide[0] != wide[1]:
        raise InputError(
            f"images have {wide[0]} numbers and captions {wide[1]}: there is no common space to "
            "start in."
        )
    heads, biases = [], []
    for side in (start.image, start.text):
        head = torch.linalg.inv(side.matrix.double().cpu())
        size = HEAD_RMS / head.square().mean().sqrt()
        heads.append((head * size).float().contiguous().to(side.mean.device))
        biases.append(side.mean * size.float().to(side.mean.device))
    return HeadInitialization(start.image, start.text, *heads, *biases)


def _center(features: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = (weights @ features.double()) / weights.sum()
    return features.double() - mean, mean


def _inverse_root(variances: Tensor, ridge: float, what: str) -> Tensor:
    mean = variances.diagonal().mean()
    if not float(mean) > 0:
        raise InputError(f"the features of all {what} are alike: there is nothing to learn from.")
    values, vectors = torch.linalg.eigh(variances)
    values = values.clamp(min=0) + ridge * mean
    root: Tensor = (vectors * values.rsqrt()) @ vectors.T
    return root


def _scale_to_rms(head: Tensor) -> Tensor:
    return head * (HEAD_RMS / head.square().mean().sqrt())


def _pad_with_noise(head: Tensor, width: int, generator: torch.Generator | None) -> Tensor:
    """Pad with random directions, a tenth as large as the others."""
    more = torch.randn(width - len(head), head.shape[1], generator=generator, dtype=head.dtype)
    return torch.cat([head, more * (HEAD_RMS / 10)])
