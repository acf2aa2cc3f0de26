"""The built-in models as trainable students."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from contrapose.models.masking.embeddings import make_zero_flags, zero_embeddings
from contrapose.models.tiny.model import TinyClip, scale_pixels
from contrapose.models.tiny.tokenizer import MATCH, PAD, START
from contrapose.models.tiny.weights import WEIGHT_FILE, write_weights
from contrapose.tune.data.rows import TrainingImages
from contrapose.tune.students import ImageOutputs, Inputs


class TinyStudent:
    """`tiny`, `tiny-clip`, or a model of the same architecture as a student."""

    rate = 2e-4
    contrast: Literal["softmax", "sigmoid"] = "softmax"
    steady = hides = True

    def __init__(self, model: TinyClip):
        self.model = model
        self.network = model.network
        self.matches = self.writes = model.network.fusion is not None

    @property
    def towers(self) -> Mapping[str, Sequence[nn.Module]]:
        """The two encoders; the fusion network belongs to neither."""
        return {"image": [self.network.image], "text": [self.network.text]}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Token ids, padded."""
        return {"tokens": self.model.tokens(texts, START).cpu()}

    def pixels(self, images: TrainingImages, rows: Sequence[int]) -> Inputs:
        """Bytes if in memory at the right size, else preprocessed pixels."""
        kept, size = images.pixels, self.network.config.image_size
        if kept is not None and kept.shape[1:3] == (size, size):
            return {"pixels": kept[torch.as_tensor(rows).to(kept.device, non_blocking=True)]}
        return {"pixels": torch.stack([self.model.prepare_image(i) for i in images.open(rows)])}

    def see(self, pixels: Inputs) -> ImageOutputs:
        """Image vectors, and image tokens if the model has a fusion network."""
        x = pixels["pixels"]
        tokens: Tensor = self.network.image(scale_pixels(x) if x.dtype == torch.uint8 else x)
        return ImageOutputs(self.network.image.embed(tokens), tokens if self.matches else None)

    def flags(self, texts: Sequence[str], tokens: Inputs) -> Tensor:
        """Mask of the tokens of hidden words."""
        width = tokens["tokens"].shape[1]
        found = make_zero_flags([self.model.hidden(text) for text in texts], texts, width)
        return torch.zeros(len(texts), width, dtype=torch.bool) if found is None else found

    def read(self, tokens: Inputs, hidden: Tensor | None = None) -> Tensor:
        """Unit vectors of captions."""
        with zero_embeddings(self.network.text.words, hidden):
            vectors: Tensor = self.network.text(tokens["tokens"])
        return vectors

    def scale(self) -> tuple[Tensor, float]:
        """The learned logit scale, clamped at 100."""
        return self.network.log_scale.exp().clamp(max=100), 0.0

    def match(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Match logits."""
        assert self.network.fusion is not None  # noqa: S101 - `matches` says so
        judged = tokens["tokens"].clone()
        judged[:, 0] = MATCH
        return self.network.fusion.match(judged, states)

    def write(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Next-token logits."""
        assert self.network.fusion is not None  # noqa: S101 - `writes` says so
        return self.network.fusion.logits(tokens["tokens"], states)

    def targets(self, tokens: Inputs) -> Tensor:
        """Target tokens, with padding ignored."""
        return tokens["tokens"].masked_fill(tokens["tokens"] == PAD, -100)

    def save(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        """Write the weight file of a built-in model."""
        write_weights(folder / WEIGHT_FILE, self.network, self.model.tokenizer.words, recipe)
