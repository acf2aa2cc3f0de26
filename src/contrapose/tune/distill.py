"""Distillation of a captioner's debiased likelihoods into a dual encoder.

For image I_i there are captions T_k to choose from: its own, a hard negative of it, captions of
other images. With lm(I, T) the mean log-probability of T's tokens and log P(T) = log mean_n exp
lm(N_n, T) over noise images N_n, the teacher's choice is

    q_ik = softmax_k(s · (lm(I_i, T_k) − α · log P(T_k))),

the student's p_ik = softmax_k(S(I_i, T_k)/τ), and the loss 1/B · Σ_i Σ_k q_ik log(q_ik / p_ik). At
α = 0 the teacher is taken at its word, at 1 by its pointwise mutual information.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contrapose import metrics
from contrapose.errors import InputError, option
from contrapose.losses import Distill, Loss, LossBatch
from contrapose.metrics import FloatArray
from contrapose.models import load_model
from contrapose.tune.data.rows import IndexArray
from contrapose.tune.feed import Feed, TrainingBatch
from contrapose.tune.settings import SHARPNESS
from contrapose.tune.students import Student

OTHER_CAPTIONS = 4
"""Captions of other images that are scored with each image."""
NOISE_IMAGES = 3
"""Noise images that the prior is taken under."""
ALL_ROWS = slice(None)


class Distiller:
    """A captioner that teaches on the batches of one feed."""

    def __init__(
        self,
        teacher: Any,
        feed: Feed,
        *,
        alpha: float = 1.0,
        sharpness: float = SHARPNESS,
        others: int = OTHER_CAPTIONS,
        seed: int = 0,
    ):
        """Check the teacher and draw its noise images.

        Args:
            teacher: gives token log-probabilities, and noise images.
            feed: whose table of texts is spoken of.
            alpha: how much of the prior is taken out.
            sharpness: how sure the teacher is of its choice.
            others: captions of other images.
            seed: of the noise.

        Raises:
            InputError: it gives no likelihoods, or a number is out of range.
        """
        if not (hasattr(teacher, "token_logprobs") and hasattr(teacher, "noise_images")):
            raise InputError(
                f"{teacher.name} gives no likelihoods: {option('teacher')} needs a captioner."
            )
        if not 0 <= alpha <= 1:
            raise InputError(f"α lies between 0 and 1, and is {alpha}.")
        if not 0 < sharpness < math.inf:
            raise InputError(f"the teacher's sharpness must be above zero, not {sharpness}.")
        self.teacher, self.feed, self.alpha, self.others = teacher, feed, alpha, others
        self.sharpness, self.seed = sharpness, seed
        self._noise = teacher.noise_images(NOISE_IMAGES, seed)
        self.memory: dict[int, float] = {}

    @property
    def about(self) -> dict[str, Any]:
        """Settings that determine the teacher's distribution, as JSON values."""
        return {
            "model": self.teacher.fingerprint,
            "noise": [getattr(self.teacher, f"noise_{name}", None) for name in ("mean", "std")],
            "alpha": self.alpha,
            "sharpness": self.sharpness,
            "others": self.others,
            "seed": self.seed,
        }

    def loss(
        self,
        student: Student,
        batch: TrainingBatch,
        image: Tensor,
        rows: slice = ALL_ROWS,
        loss: Loss | None = None,
    ) -> Tensor:
        """A loss on the captions that the teacher chose from, averaged over images.

        Args:
            student: reads the captions.
            batch: of images, whose captions are those to choose from.
            image: (r, d) the student's vectors of the images of some rows.
            rows: which.
            loss: the loss; `Distill` without it.
        """
        choices = self.choices(batch)[rows]
        exact = torch.promote_types(image.dtype, torch.float32)
        targets = torch.from_numpy(self.aims(batch, choices, rows)).to(image.device, exact)
        distinct, places = np.unique(np.maximum(choices, 0), return_inverse=True)
        tokens = self.feed.read(distinct)
        where = torch.from_numpy(places.reshape(choices.shape)).to(image.device)
        absent = torch.from_numpy(choices < 0).to(image.device)
        vectors = student.read(tokens)[where].masked_fill(absent[:, :, None], 0)
        scale = student.scale()[0].to(image.device, exact)
        inputs = LossBatch(image, vectors[:, 0], scale=scale, choices=vectors, targets=targets)
        return (loss or Distill())(inputs)

    def choices(self, batch: TrainingBatch) -> IndexArray:
        """(b, 2 + others) candidate captions: own, hard negative, others'; −1 for none."""
        captions = batch.captions.cpu().numpy()
        candidates = [captions, batch.negatives]
        for step in range(1, min(self.others, len(captions) - 1) + 1):
            other = np.roll(captions, step)
            candidates.append(np.where(other == captions, -1, other))
        return np.stack(candidates, axis=1)

    def aims(self, batch: TrainingBatch, choices: IndexArray, rows: slice = ALL_ROWS) -> FloatArray:
        """(r, k) the teacher's distribution over the candidates of some rows."""
        images = [
            self.teacher.prepare_image(image)
            for image in self.feed.rows.images.open(batch.rows[rows].tolist())
        ]
        places = np.nonzero(choices >= 0)
        texts = choices[places]
        scores = np.full(choices.shape, -np.inf)
        means = self._means([images[row] for row in places[0]], texts)
        scores[places] = means - self.alpha * self._priors(texts)
        scores = self.sharpness * (scores - scores.max(axis=1, keepdims=True))
        chances = np.exp(scores)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _priors(self, texts: IndexArray) -> FloatArray:
        if self.alpha == 0:
            return np.zeros(len(texts))
        fresh = [text for text in np.unique(texts).tolist() if text not in self.memory]
        if fresh:
            means = [self._means([noise] * len(fresh), np.array(fresh)) for noise in self._noise]
            logs = metrics.log_prior(np.stack(means))
            self.memory |= dict(zip(fresh, logs.tolist(), strict=True))
        return np.array([self.memory[text] for text in texts.tolist()])

    def _means(self, images: list[Any], texts: IndexArray) -> FloatArray:
        """Mean token log-probabilities of image-caption pairs."""
        captions = [self.feed.rows.texts[text] for text in texts.tolist()]
        size = self.teacher.batch_size
        parts = []
        for start in range(0, len(captions), size):
            some = slice(start, start + size)
            logprobs = self.teacher.token_logprobs(images[some], captions[some])
            parts.append(
                metrics.token_mean(
                    logprobs.values.float().cpu().numpy(), np.asarray(logprobs.offsets)
                )
            )
        return np.concatenate(parts).astype(np.float64)


def load_teacher(name: str, device: str) -> Any:
    """Load the captioner of a name, which truncates long captions."""
    return load_model(name, device=device, cut=True)
