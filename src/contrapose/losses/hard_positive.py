"""Hard-positive loss: a true rewording of the caption belongs to the image too."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch
from contrapose.losses.gather import all_gather, global_mean, processes
from contrapose.losses.hard_negative import hard_captions
from contrapose.losses.info_nce import InfoNCE
from contrapose.losses.log_sums import row_log_sums
from contrapose.losses.registry import register_loss


@register_loss
@dataclass(frozen=True, slots=True)
class HardPositive:
    """Hard-positive loss: a rewording of the caption belongs to the image too.

    Computes: `analogy`, ½ InfoNCE(images, positives) + ½ InfoNCE(captions, positives) over the
        whole batch, a missing positive replaced by the caption (SVLC's analogy loss in its
        symmetric form; Kamath et al. 2024, section E.1). Not `symmetric`, only images and captions
        pick their positive: ½ CE(images → positives) + ½ CE(captions → positives), as SVLC is
        released. `even`, the cross-entropy of the softmax of S(I_i, c_i)/τ and S(I_i, p_i)/τ from
        one half each, less log 2: zero where both score alike (SVLC's option `kl_pos`).
    Inputs: `image`, `text`, `positive`, `scale`; `has_positive` where some are missing; `same` for
        rows that are no negatives of each other, such as equal captions.
    Requirements: captions with true rewordings, at most one each.
    When to use: beside `HardNegative`: on the built-in world it took back more than half of the
        oversensitivity that marked negatives teach, and most of it at four times the weight of
        `hn` (docs/studies/positives.md).

    Example:
        >>> batch = LossBatch(image, text, negative=negative, positive=positive)
        >>> loss = HardNegative()(batch) + HardPositive()(batch)
    """

    name: ClassVar[str] = "hp"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"positive"})
    match_label: ClassVar[float] = 1.0

    form: Literal["analogy", "even"] = "analogy"
    symmetric: bool = True
    """Of the analogy: whether positives also pick their image and their caption."""

    def __post_init__(self) -> None:
        if self.form == "even" and not self.symmetric:
            raise InputError("only the analogy has one direction: the even form has none.")

    def __call__(self, batch: LossBatch) -> Tensor:
        """The mean over the whole batch."""
        image, text = batch.features()
        positive = batch.require("positive")
        if positive.ndim != 2:
            raise InputError(
                f"hard positives have shape {tuple(positive.shape)}: give one a caption, (b, d)."
            )
        others, has = hard_captions(image, positive, batch.has_positive)
        positive = others[:, 0]
        if self.form == "even":
            apart = batch.scale * (image * (text - positive)).sum(1)
            losses = -(F.logsigmoid(apart) + F.logsigmoid(-apart)) / 2 - math.log(2)
            return global_mean(losses, has[:, 0].to(losses.dtype))
        positive = torch.where(has, positive, text)
        if not self.symmetric:
            return self._one_direction(batch, (image, text), positive)
        nce = InfoNCE()
        pairs = [replace(batch, image=it, text=positive) for it in (image, text)]
        return (nce(pairs[0]) + nce(pairs[1])) / 2

    def _one_direction(
        self, batch: LossBatch, anchors: tuple[Tensor, Tensor], positive: Tensor
    ) -> Tensor:
        """Mean cross-entropy of images and of captions over the positives of all processes."""
        positives, same = all_gather(positive), batch.same
        every = None if same is None else processes().gather(same)
        losses = [
            row_log_sums(rows, positives, batch.scale, rows_id=same, columns_id=every)
            - batch.scale * (rows * positive).sum(1)
            for rows in anchors
        ]
        return global_mean((losses[0] + losses[1]) / 2)


register_loss(partial(HardPositive, "even"), "hp-even")
