"""CLIP, SigLIP and BLIP of transformers as trainable students."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from contrapose.errors import InputError
from contrapose.models.exact import normalize_rows
from contrapose.models.hf.base import log_odds
from contrapose.models.hf.blip import Blip
from contrapose.models.hf.checkpoint import silence_transformers
from contrapose.models.hf.dual import DualEncoder
from contrapose.models.hf.inputs import ImageInputs, TextInputs
from contrapose.models.masking.embeddings import zero_embeddings
from contrapose.models.masking.text import ZERO
from contrapose.tune.data.rows import TrainingImages
from contrapose.tune.students import ImageOutputs, Inputs

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".h5", ".msgpack", ".onnx", ".index.json")
"""Ends of the names of files that are written anew."""
WORKERS = 8
"""Threads that prepare images."""


class _HfStudent:
    """Shared preprocessing and saving of transformers students, which write no captions."""

    network: Any
    source: Path
    steady = False

    def __init__(self, texts: TextInputs, images: ImageInputs, model: DualEncoder | Blip):
        self._texts, self._images = texts, images
        self._words, self.hides = model.word_embedding, ZERO in model.text_masks

    def match(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Not supported: there is no matching head; `matches` says so."""
        raise NotImplementedError

    def write(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Not supported: there is no decoder; `writes` says so."""
        raise NotImplementedError

    def targets(self, tokens: Inputs) -> Tensor:
        """Not supported: there is no decoder; `writes` says so."""
        raise NotImplementedError

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WORKERS)

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Token ids and attention masks."""
        return self._texts.tensors(texts, "cpu")

    def flags(self, texts: Sequence[str], tokens: Inputs) -> Tensor:
        """Mask of the tokens of hidden words."""
        flags = self._texts.zero_flags(texts, tokens)
        shape = len(texts), tokens["input_ids"].shape[1]
        return torch.zeros(shape, dtype=torch.bool) if flags is None else flags

    def pixels(self, images: TrainingImages, rows: Sequence[int]) -> Inputs:
        """Normalized pixels, by the library's image processor."""
        prepared = list(self._pool.map(self._images.prepare, images.open(rows)))
        return dict(self._images.stack(prepared, "cpu", torch.float32))

    def save(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        """Write the library's files; tokenizer and image processor are copied unchanged."""
        for file in self.source.iterdir():
            if file.is_file() and not file.name.endswith(WEIGHT_SUFFIXES):
                shutil.copyfile(file, folder / file.name)
        with silence_transformers():
            self.network.save_pretrained(folder)


class DualStudent(_HfStudent):
    """CLIP or SigLIP as a student."""

    rate = 1e-5
    matches = writes = False

    def __init__(self, model: DualEncoder, source: Path):
        super().__init__(model.text_inputs, model.image_inputs, model)
        self.model, self.source = model, source
        self.network = model.network
        kind = type(self.network).__name__
        if kind not in ("CLIPModel", "SiglipModel"):
            raise InputError(f"a {kind} cannot be tuned here: CLIP, SigLIP and BLIP can.")
        self.contrast: Literal["softmax", "sigmoid"] = (
            "sigmoid" if kind == "SiglipModel" else "softmax"
        )

    @property
    def towers(self) -> Mapping[str, Sequence[nn.Module]]:
        """The encoders with their projections, if they have any."""
        net = self.network
        heads = {"image": "visual_projection", "text": "text_projection"}
        main = {"image": net.vision_model, "text": net.text_model}
        return {
            side: [tower, *([getattr(net, heads[side])] if hasattr(net, heads[side]) else [])]
            for side, tower in main.items()
        }

    def see(self, pixels: Inputs) -> ImageOutputs:
        """Image vectors, without states."""
        return ImageOutputs(
            normalize_rows(self.network.get_image_features(**pixels).pooler_output), None
        )

    def read(self, tokens: Inputs, hidden: Tensor | None = None) -> Tensor:
        """Unit vectors of captions."""
        with zero_embeddings(self._words, hidden):
            return normalize_rows(self.network.get_text_features(**tokens).pooler_output)

    def scale(self) -> tuple[Tensor, Tensor | float]:
        """The library's logit scale and bias; CLIP's scale is clamped at 100, as in training."""
        scale = self.network.logit_scale.exp()
        if self.contrast == "sigmoid":
            return scale.squeeze(), self.network.logit_bias.squeeze()
        return scale.clamp(max=100), 0.0


class BlipStudent(_HfStudent):
    """BLIP with its matching head as a student."""

    rate = 1e-5
    contrast: Literal["softmax", "sigmoid"] = "softmax"
    matches, writes = True, False
    TAU = 0.07
    """The library's model has lost its temperature; this is where its training began."""

    def __init__(self, model: Blip, source: Path):
        super().__init__(model.text_inputs, model.image_inputs, model)
        self.model, self.source = model, source
        self.network = model.network

    @property
    def towers(self) -> Mapping[str, Sequence[nn.Module]]:
        """The encoders with their projections; the text network also matches pairs."""
        net = self.network
        text = [net.text_encoder, net.text_proj, net.itm_head]
        return {"image": [net.vision_model, net.vision_proj], "text": text}

    def see(self, pixels: Inputs) -> ImageOutputs:
        """Image vectors, and the states that the text network attends to."""
        states = self.network.vision_model(pixels["pixel_values"])[0]
        return ImageOutputs(normalize_rows(self.network.vision_proj(states[:, 0])), states)

    def read(self, tokens: Inputs, hidden: Tensor | None = None) -> Tensor:
        """Unit vectors of captions."""
        with zero_embeddings(self._words, hidden):
            return normalize_rows(
                self.network.text_proj(self.network.text_encoder(**tokens)[0][:, 0])
            )

    def scale(self) -> tuple[Tensor, float]:
        """The fixed logit scale 1/τ."""
        return torch.tensor(1 / self.TAU), 0.0

    def match(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Log-odds of a match."""
        read = self.network.text_encoder(**tokens, encoder_hidden_states=states)[0]
        return log_odds(self.network.itm_head(read[:, 0]))
