"""Adaptation heads: two frozen encoders, even ones that never met, brought into one space.

    from contrapose.tune.heads import HeadSettings, read_features, train_heads
    trained = train_heads(read_features(folder, "train"), HeadSettings(tau=0.1))
    vectors = trained.embed_images(features)

Couairon et al., Embedding Arithmetic of Multimodal Queries for Image Retrieval (2022), section 4.3.
"""

from contrapose.tune.heads.cache import Pairs, write_features
from contrapose.tune.heads.features import Features, has_features, read_features
from contrapose.tune.heads.measuring import Deltas, Measured, Value, measure
from contrapose.tune.heads.settings import HeadSettings
from contrapose.tune.heads.sweep import Request, Sweep, Swept, sweep, sweep_folder
from contrapose.tune.heads.training import Trained, train_heads

__all__ = [
    "Deltas",
    "Features",
    "HeadSettings",
    "Measured",
    "Pairs",
    "Request",
    "Sweep",
    "Swept",
    "Trained",
    "Value",
    "has_features",
    "measure",
    "read_features",
    "sweep",
    "sweep_folder",
    "train_heads",
    "write_features",
]
