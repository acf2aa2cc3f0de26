"""The equivariance score: does the similarity change alike for the same change of meaning?

For a 2 × 2 example with scores S (images down, captions across) EqSim's second loss asks that
turning caption 0 into caption 1 costs image 0 as much as turning caption 1 into caption 0 costs
image 1, and the same with images and captions exchanged (Wang et al., Equivariant Similarity for
Vision-Language Foundation Models, 2023, section 3 and figure 6):

    e_text  = (S₀₀ − S₀₁) − (S₁₁ − S₁₀)
    e_image = (S₀₀ − S₁₀) − (S₁₁ − S₀₁)

Both are zero for a symmetric S with a constant diagonal. A tighter distribution around zero is more
equivariant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.metrics.statistics.statistic import Statistic, mean_of, standard_deviation
from contrapose.metrics.types import FloatArray, finite, of_shape


@dataclass(frozen=True, slots=True, eq=False)
class Equivariance:
    """The two equivariance scores of k examples, in standard deviations of the model's scores.

    Attributes:
        text: (k,) e_text.
        image: (k,) e_image.
    """

    text: FloatArray
    image: FloatArray

    def statistics(self) -> dict[str, Statistic]:
        """What is reported of each side: `text_mean`, `text_std`, `text_mean_abs`, `image_…`."""
        named: dict[str, Statistic] = {}
        for side, values in (("text", self.text), ("image", self.image)):
            named[f"{side}_mean"] = mean_of(values)
            named[f"{side}_std"] = standard_deviation(values)
            named[f"{side}_mean_abs"] = mean_of(np.abs(values))
        return named

    def summary(self) -> dict[str, float]:
        """The values of `statistics`."""
        return {name: statistic.value() for name, statistic in self.statistics().items()}

    def only(self, chosen: ArrayLike) -> Equivariance:
        """Those of some examples, by mask or positions; they stay standardised over all."""
        index = np.asarray(chosen)
        return Equivariance(self.text[index], self.image[index])


def equivariance(scores: ArrayLike) -> Equivariance:
    """Equivariance scores of 2 × 2 examples.

    The scores are standardised first, so that models with other scales can be compared: by the mean
    and standard deviation of all scores given. Give all of a model's scores on a benchmark at once,
    and take subsets afterwards with `Equivariance.only`.

    Args:
        scores: (k, 2, 2) scores[i, image, caption], matching along the diagonal.

    Raises:
        InputError: another shape, or a score that is NaN or infinite.
    """
    raw = of_shape(finite(scores, "scores"), (None, 2, 2), "scores for equivariance")
    spread = float(raw.std()) if raw.size else 0.0
    # Scores that are all alike differ by nothing, whatever they are divided by.
    s = (raw - (raw.mean() if raw.size else 0.0)) / (spread if spread > 0 else 1.0)
    text = (s[:, 0, 0] - s[:, 0, 1]) - (s[:, 1, 1] - s[:, 1, 0])
    image = (s[:, 0, 0] - s[:, 1, 0]) - (s[:, 1, 1] - s[:, 0, 1])
    return Equivariance(text, image)
