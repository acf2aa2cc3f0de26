"""The text side: any encoder of the transformers library, pooled as sentence-transformers says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models.hf.checkpoint import Checkpoint, open_checkpoint
from contrapose.models.hf.inputs import Captions
from contrapose.models.hiding import word_embedding, zeroed
from contrapose.models.joined.pool import pooled
from contrapose.models.joined.spec import Side
from contrapose.models.options import LoadOptions

SHIFTED = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Encoders that count places by the tokens that are no padding, from behind the padding's."""
_MODES = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}


class TextSide:
    """Captions become an encoder's vectors, before any head.

    Attributes:
        captions: its tokeniser with its limits.
        pool: what of its output is its vector.
        fingerprint: of all its files.
        parameters: number of weights.
        masks: how it can hide words.
    """

    def __init__(self, side: Side, source: str, name: str, options: LoadOptions):
        from transformers import AutoModel, AutoModelForTextEncoding

        checkpoint = open_checkpoint(source, side.revision, name, options)
        folder = Path(checkpoint.source)
        self.pool = side.pool or sentence_pool(folder) or "mean"
        self._normalise = side.normalise
        self._device = options.device
        whole = getattr(checkpoint.config, "is_encoder_decoder", False)
        kind: Any = AutoModelForTextEncoding if whole else AutoModel
        unused = () if self.pool == "pooler" else ("pooler.",)
        self._network: Any = checkpoint.model(kind, unneeded=unused)
        tokenizer = checkpoint.tokenizer()
        self.captions = Captions(
            name,
            tokenizer,
            _context(checkpoint, tokenizer),
            cut=options.cut,
            padding="longest",
            shifts=checkpoint.config.model_type in SHIFTED,
        )
        self._words = word_embedding(self._network)
        self.masks = self.captions.masks if self._words is not None else ()
        self.fingerprint = checkpoint.fingerprint
        self.parameters: int = self._network.num_parameters()

    @property
    def context(self) -> int:
        """Most tokens of a caption, with start and end."""
        return self.captions.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self.captions.cut

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with start and end."""
        return self.captions.counts(texts)

    def features(self, texts: Sequence[str]) -> Tensor:
        """Vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        tokens = self.captions.tensors(texts, self._device)
        with zeroed(self._words, self.captions.zeros(texts, tokens)):
            found = self._network(**tokens)
        vectors = pooled(found, self.pool, tokens.get("attention_mask"))
        return normalize(vectors, dim=-1) if self._normalise else vectors


def sentence_pool(folder: Path) -> str:
    """How a folder of sentence-transformers pools; empty where it is none.

    Raises:
        InputError: it does something that is not known here.
    """
    if not (folder / "modules.json").is_file():
        return ""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        kinds = {str(each["type"]).rpartition(".")[2]: str(each["path"]) for each in modules}
        strange = kinds.keys() - {"Transformer", "Pooling", "Normalize"}
        if strange:
            raise InputError(
                f"has a module {sorted(strange)[0]!r}, which joined encoders cannot have: use an "
                "encoder of transformer and pooling alone.",
                file=folder,
            )
        config = json.loads((folder / kinds["Pooling"] / "config.json").read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"its sentence pooling cannot be read ({error}).", file=folder) from None
    modes = [config["pooling_mode"]] if "pooling_mode" in config else _old_modes(config)
    if len(modes) != 1 or modes[0] not in _MODES:
        raise InputError(f"pools by {', '.join(modes)}, which is not known here.", file=folder)
    return _MODES[modes[0]]


def _old_modes(config: dict[str, Any]) -> list[str]:
    """Which of the flags `pooling_mode_mean_tokens` and the like are set."""
    on = [key.removeprefix("pooling_mode_") for key, value in config.items() if value is True]
    flags = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
    return [flags.get(each, each) for each in on if each in flags or each == "lasttoken"]


def _context(checkpoint: Checkpoint, tokenizer: Any) -> int:
    """Most tokens: what sentence-transformers, the tokeniser or the network says."""
    config, limits = checkpoint.config, [int(tokenizer.model_max_length)]
    places = getattr(config, "max_position_embeddings", None)
    if places:
        shifted = config.model_type in SHIFTED
        limits.append(places - (2 if shifted else 0))
    file = Path(checkpoint.source) / "sentence_bert_config.json"
    if file.is_file():
        stated = json.loads(file.read_text(encoding="utf-8")).get("max_seq_length")
        if stated:
            limits.append(int(stated))
    return min(limits)
