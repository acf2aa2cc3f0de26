"""Models of sentence-transformers that read images and text, as dual encoders: `st:ORG/NAME`.

The library's `encode` embeds both, with the prompt that the model's files name as its default. A
model of text alone is a text encoder, which can search the images of another one's space.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentence_transformers import SentenceTransformer

from contrapose.errors import InputError, first_line
from contrapose.models.capabilities import ModelCard, check_caption
from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf.checkpoint import download, require_vocabulary, silence_transformers
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions
from contrapose.models.sides import require_side

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

IGNORED = ["onnx/*", "openvino/*", "*.md", ".git*", "*.h5", "*.msgpack", "*.ot"]
"""Files of the hub that the model does not consist of, or that are for other programs."""
COUNTED_SUFFIXES = (".json", ".txt", ".model", ".jinja", ".safetensors", ".bin", ".py")
"""Suffixes of the files that decide a model's numbers."""
ON_CPU, ELSEWHERE = 16, 64
"""Batch sizes."""
LONGEST_TEXT = 1 << 16
"""Context length of a model that cuts no text."""
UNCUT = {"text": {"truncation": False, "padding": False}, "common": {"return_tensors": None}}
"""Arguments of the library's preprocessing that leave texts as long as they are."""


class SentenceEncoder:
    """A multimodal model of sentence-transformers: score `itc` is the cosine.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of the files that decide its numbers, dtype and cut.
        revision: the commit on the hub; None for a local folder.
        batch_size: default number of images or captions per call.
        network: the library's model.
        context: most tokens of a caption, prompt and special tokens included.
        cuts: whether longer captions are truncated.
        sides: `image` and `text`, or `text` alone.
        card: the model card.
    """

    def __init__(
        self, name: str, folder: Path, revision: str | None, network: Any, options: LoadOptions
    ):
        self.name = name
        self.revision = revision
        self.network = network
        self.sides = tuple(side for side in ("image", "text") if network.supports(side))
        self.cuts = options.cut
        self.batch_size = ON_CPU if options.device == "cpu" else ELSEWHERE
        self.fingerprint = fingerprint(
            list_counted_files(folder), library="st", dtype=options.dtype, cut=options.cut
        )
        self._tokenizer = network.tokenizer
        self._reads_media = len(network.modalities) > 1
        self._prompt = network.prompts.get(network.default_prompt_name) or None
        longest = network.max_seq_length or getattr(self._tokenizer, "model_max_length", None)
        self.context = int(min(longest or LONGEST_TEXT, LONGEST_TEXT))
        self.card = ModelCard(
            family="sentence-transformers",
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing="as sentence-transformers does it",
            context=self.context,
            notes=(
                f"modules: {', '.join(type(module).__name__ for module in network)}",
                f"default prompt: {self._prompt!r}"
                if self._prompt
                else "no prompt before captions or images",
            ),
        )

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, prompt and special ones included."""
        if not texts:
            return []
        with silence_transformers():  # it warns of long texts
            rows = self.network.preprocess(
                self._mark_texts(texts), prompt=self._prompt, processing_kwargs=UNCUT
            )
        return [len(row) for row in rows["input_ids"]]

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        if not texts:
            return []
        rows = self._tokenizer(
            list(texts), truncation=False, add_special_tokens=False, verbose=False
        )
        return [list(row) for row in rows["input_ids"]]

    @exact_inference
    def embed_images(self, images: Sequence[Image]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: it is a text encoder alone.
        """
        require_side(self, "image")
        return self._encode([image.convert("RGB") for image in images])

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        most = None if self.cuts else self.context
        rows = zip(texts, self.token_counts(texts), self.token_ids(texts), strict=True)
        for text, count, ids in rows:
            check_caption(self.name, text, count, count - len(ids), most)
        return self._encode(self._mark_texts(texts))

    def _mark_texts(self, texts: Sequence[str]) -> list[Any]:
        """Captions as inputs of the library.

        A model that reads more than text would take the address of an image for the image, and
        fetch it: such a caption is marked as text.
        """
        return [{"text": text} for text in texts] if self._reads_media else list(texts)

    def _encode(self, inputs: Sequence[Any]) -> Tensor:
        import torch

        if not inputs:
            size = self.network.get_embedding_dimension()
            return torch.empty(0, int(size or 0))
        vectors: Tensor = self.network.encode(
            inputs, batch_size=len(inputs), convert_to_tensor=True, show_progress_bar=False
        )
        return normalize_rows(vectors)


def load(source: str, revision: str | None, name: str, options: LoadOptions) -> SentenceEncoder:
    """Load a model of sentence-transformers from a folder or from the hub.

    Raises:
        InputError: it cannot be loaded, reads no text, or its vectors would be pooled by a rule
            that it was not trained with.
    """
    folder = Path(source).expanduser()
    commit = None
    if not folder.is_dir():
        folder = download(source, revision, name, ["*"], IGNORED, folders=True)
        commit = folder.name
    if not any((folder / file).is_file() for file in ("modules.json", "config.json")):
        raise InputError(f"{name} holds no model: there is no modules.json and no config.json.")
    require_vocabulary(list_counted_files(folder), name)
    try:
        with silence_transformers(), _silence_library():
            network: Any = SentenceTransformer(
                str(folder),
                device=options.device,
                local_files_only=True,
                trust_remote_code=options.trust_remote_code,
                model_kwargs={"dtype": options.torch_dtype},
            )
    except Exception as error:  # the libraries raise almost anything on damaged files
        raise InputError(
            f"{name} cannot be loaded by sentence-transformers ({first_line(error)})."
        ) from None
    if not network.supports("text"):
        raise InputError(
            f"{name} reads no text: a dual encoder reads images and text, and this model "
            f"{', '.join(map(str, network.modalities))}."
        )
    if not (folder / "modules.json").is_file() and len(network) > 1:
        raise InputError(
            f"{name} holds no modules.json: sentence-transformers would pool its vectors by a rule "
            "that the model was not trained with."
        )
    network.eval().requires_grad_(False)
    return SentenceEncoder(name, folder, commit, network, options)


def list_counted_files(folder: Path) -> list[Path]:
    """Files that decide a model's numbers, also in subfolders, in the order of their paths."""
    skipped = {pattern.removesuffix("/*") for pattern in IGNORED if pattern.endswith("/*")}
    return [
        file
        for file in sorted(folder.rglob("*"))
        if file.suffix in COUNTED_SUFFIXES
        and file.is_file()
        and not skipped & set(file.relative_to(folder).parts)
    ]


@contextmanager
def _silence_library() -> Iterator[None]:
    """Silence logs of sentence-transformers for a while."""
    logger = logging.getLogger("sentence_transformers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
