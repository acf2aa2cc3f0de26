"""InfoNCE with hard negatives inside its softmax, as in SVLC and NegCLIP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from contrapose.losses.batch import LossBatch
from contrapose.losses.gather import all_gather, global_mean, processes
from contrapose.losses.hard_negative import hard_captions
from contrapose.losses.log_sums import row_log_sums
from contrapose.losses.registry import register_loss


class _Columns(NamedTuple):
    """Features of this process and of all, with the numbers that say which are no negatives."""

    image: Tensor
    text: Tensor
    images: Tensor
    texts: Tensor
    rows_id: Tensor
    images_id: Tensor
    texts_id: Tensor
    present: Tensor


@register_loss
@dataclass(frozen=True, slots=True)
class NegativeInfoNCE:
    """Symmetric InfoNCE with the hard negatives of the batch as further captions.

    Computes: −1/2B · Σ_i [log softmax_j(S(I_i, t_j)/τ)_i + log softmax_j(S(I_j, c_i)/τ)_i]; the t_j
        are the captions of the batch followed by all hard negatives of the batch, which appear in
        the softmax of images over captions only (SVLC, Doveh et al. 2023, as released; the same is
        NegCLIP's loss without hard images).
    Inputs: `image`, `text`, `negative`, `scale`; `has_negative` where some are missing; `same`, and
        `same_negative` for negatives that are the caption of another row.
    Requirements: captions with false changes; at least two pairs in the batch.
    When to use: in place of the contrastive loss of the model, where negatives should compete with
        all captions of the batch; SVLC has `HardNegative` beside it. On the built-in
        world it makes as oversensitive to wording as `HardNegative` does, and both together more
        (docs/studies/positives.md).

    Example:
        >>> batch = LossBatch(image, text, negative=negative)
        >>> loss = NegativeInfoNCE()(batch) + HardNegative()(batch)
    """

    name: ClassVar[str] = "infonce-hn"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"negative"})
    contrastive: ClassVar[bool] = True

    def __call__(self, batch: LossBatch, *, tile: int | None = None) -> Tensor:
        """The loss of the whole batch, `tile` rows of logits at once."""
        it, scale = self._columns(batch), batch.scale
        to_texts = row_log_sums(
            it.image, it.texts, scale,
            rows_id=it.rows_id, columns_id=it.texts_id, present=it.present, tile=tile,
        )  # fmt: skip
        to_images = row_log_sums(
            it.text, it.images, scale, rows_id=it.rows_id, columns_id=it.images_id, tile=tile
        )
        right = scale * (it.image * it.text).sum(1)
        return global_mean((to_texts + to_images) / 2 - right)

    def plain(self, batch: LossBatch) -> Tensor:
        """The loss on matrices of all logits, with autograd; for reading and tests."""
        it = self._columns(batch)
        first = processes().rank * len(it.image)
        losses = []
        for rows, columns, numbers, present in (
            (it.image, it.texts, it.texts_id, it.present),
            (it.text, it.images, it.images_id, it.present[: len(it.images)]),
        ):
            logits = batch.scale * rows @ columns.T
            hidden = it.rows_id[:, None] == numbers
            hidden.diagonal(first).fill_(False)
            logits = logits.masked_fill(hidden | ~present, -torch.inf)
            losses.append(logits.logsumexp(1) - logits.diagonal(first))
        return global_mean((losses[0] + losses[1]) / 2)

    def _columns(self, batch: LossBatch) -> _Columns:
        """Gathered features, with the negatives of all processes behind the captions of all."""
        image, text = batch.pairs()
        negative, has = hard_captions(image, batch.require("negative"), batch.has_negative)
        job, size = processes(), len(image)
        same = batch.same
        if same is None:
            same = torch.arange(size, device=image.device) + job.rank * size
        images_id = job.gather(same)
        other = batch.same_negative
        if other is None or batch.same is None:  # a number that no caption has
            other = (images_id.max() + 1).expand(has.shape)
        return _Columns(
            image,
            text,
            all_gather(image),
            torch.cat([all_gather(text), all_gather(negative.flatten(0, 1))]),
            same,
            images_id,
            torch.cat([images_id, job.gather(other.flatten())]),
            torch.cat([torch.ones_like(images_id, dtype=torch.bool), job.gather(has.flatten())]),
        )
