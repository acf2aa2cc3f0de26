"""Adaptation heads: two frozen encoders, even unrelated ones, mapped into one space.

    from contrapose.tune.heads import read_features, train_heads
    from contrapose.tune.settings import HeadSettings
    trained = train_heads(read_features(folder, "train"), HeadSettings(tau=0.1))
    vectors = trained.embed_images(features)

`sweep` trains heads at several temperatures and measures them.

Couairon et al., Embedding Arithmetic of Multimodal Queries for Image Retrieval (2022), section 4.3.
"""

from contrapose.tune.heads.features import (
    CaptionedImages,
    Features,
    has_features,
    read_features,
    write_features,
)
from contrapose.tune.heads.training import TrainedHeads, train_heads

__all__ = [
    "CaptionedImages",
    "Features",
    "TrainedHeads",
    "has_features",
    "read_features",
    "train_heads",
    "write_features",
]
