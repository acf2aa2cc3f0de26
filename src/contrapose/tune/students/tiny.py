"""The built-in models as students."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from contrapose.models.hiding import flags_of, zeroed
from contrapose.models.tiny.model import TinyClip, to_range
from contrapose.models.tiny.tokeniser import MATCH, PAD, START
from contrapose.models.tiny.weights import SAVED, write_weights
from contrapose.tune.data.rows import Images
from contrapose.tune.students.student import Inputs, Seen


class TinyStudent:
    """`tiny` or `tiny-clip`, or one of their kind."""

    rate = 2e-4
    contrast: Literal["softmax", "sigmoid"] = "softmax"
    steady = hides = True

    def __init__(self, model: TinyClip):
        self.model = model
        self.network = model.network
        self.matches = self.writes = model.network.fusion is not None

    @property
    def towers(self) -> Mapping[str, Sequence[nn.Module]]:
        """The two encoders; what looks at the image and reads belongs to neither."""
        return {"image": [self.network.image], "text": [self.network.text]}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Token numbers, padded."""
        return {"tokens": self.model.tokens(texts, START).cpu()}

    def pixels(self, images: Images, rows: Sequence[int]) -> Inputs:
        """Bytes where they lie in memory at the right size; prepared pixels otherwise."""
        kept, size = images.pixels, self.network.config.image_size
        if kept is not None and kept.shape[1:3] == (size, size):
            return {"pixels": kept[torch.as_tensor(rows).to(kept.device, non_blocking=True)]}
        return {"pixels": torch.stack([self.model.prepare_image(i) for i in images.open(rows)])}

    def see(self, pixels: Inputs) -> Seen:
        """Vectors and, where something looks at them, image tokens."""
        x = pixels["pixels"]
        tokens: Tensor = self.network.image(to_range(x) if x.dtype == torch.uint8 else x)
        return Seen(self.network.image.embed(tokens), tokens if self.matches else None)

    def flags(self, texts: Sequence[str], tokens: Inputs) -> Tensor:
        """The tokens of hidden words."""
        width = tokens["tokens"].shape[1]
        found = flags_of([self.model.hidden(text) for text in texts], texts, width)
        return torch.zeros(len(texts), width, dtype=torch.bool) if found is None else found

    def read(self, tokens: Inputs, hidden: Tensor | None = None) -> Tensor:
        """Vectors of captions."""
        with zeroed(self.network.text.words, hidden):
            vectors: Tensor = self.network.text(tokens["tokens"])
        return vectors

    def scale(self) -> tuple[Tensor, float]:
        """As in its first training."""
        return self.network.log_scale.exp().clamp(max=100), 0.0

    def match(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Match logits."""
        assert self.network.fusion is not None  # noqa: S101 - `matches` says so
        judged = tokens["tokens"].clone()
        judged[:, 0] = MATCH
        return self.network.fusion.match(judged, states)

    def write(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Logits of the token after each."""
        assert self.network.fusion is not None  # noqa: S101 - `writes` says so
        return self.network.fusion.logits(tokens["tokens"], states)

    def targets(self, tokens: Inputs) -> Tensor:
        """The tokens; padding does not count."""
        return tokens["tokens"].masked_fill(tokens["tokens"] == PAD, -100)

    def save(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        """The weight file that a folder of this kind holds."""
        write_weights(folder / SAVED, self.network, self.model.tokeniser.words, recipe)
