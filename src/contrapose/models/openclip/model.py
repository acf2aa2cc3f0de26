"""An open_clip model as the scoring engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from PIL.Image import Image, Resampling
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.models.capabilities import ModelCard
from contrapose.models.captions import check_caption
from contrapose.models.options import LoadOptions
from contrapose.models.pixels import Steps, batched
from contrapose.models.precise import precise

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture

FILTERS = {"bicubic": Resampling.BICUBIC, "bilinear": Resampling.BILINEAR}


class OpenClip:
    """Images and captions become vectors on their own, compared by their cosine (`itc`).

    Captions are padded to the full length, as the library does.

    Attributes:
        name: as the user would type it.
        fingerprint: of weights, configuration and preprocessing.
        batch_size: how many to give at once.
        network: the library's own.
        card: what a user should know.
    """

    def __init__(
        self,
        name: str,
        fingerprint: str,
        network: Any,
        tokenizer: Any,
        options: LoadOptions,
        *,
        quick: bool,
    ):
        self.name = name
        self.fingerprint = fingerprint
        self.batch_size = 64
        self.network = network
        self._tokenizer = tokenizer
        self._options = options
        self._steps = steps_of(network.visual.preprocess_cfg)
        self._transform = self._steps.bytes_of if self._steps else _library_transform(network)
        self._added = self.token_counts([""])[0]
        scale = network.logit_scale.detach().float().exp().item()
        self.card = ModelCard(
            family="open_clip",
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=self._steps.in_words() if self._steps else "as open_clip does it",
            context=self.context,
            notes=(
                f"itc is the bare cosine; in training it was multiplied by {scale:.4g}",
                f"its activation is {'QuickGELU' if quick else 'that of its configuration'}",
            ),
        )

    @precise
    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        rows: list[Any] = [
            self.prepare_image(image) if isinstance(image, Image) else image for image in images
        ]
        pixels = batched(rows, self._steps, self._options.device, self._options.torch_dtype)
        return normalize(self.network.encode_image(pixels).float(), dim=-1)

    @precise
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        most = None if self.cuts else self.context
        for text, count in zip(texts, self.token_counts(texts), strict=True):
            check_caption(self.name, text, count, self._added, most)
        tokens = self._tokenizer(list(texts)).to(self._options.device)
        return normalize(self.network.encode_text(tokens).float(), dim=-1)

    def prepare_image(self, image: Image) -> Tensor:
        """An image as the network takes it, but for normalising."""
        return self._transform(image.convert("RGB"))

    @property
    def context(self) -> int:
        """Most tokens of a caption, with start and end."""
        return int(self._tokenizer.context_length)

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self._options.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with start and end."""
        inner = getattr(self._tokenizer, "tokenizer", None)
        if inner is None:
            return [len(self._tokenizer.encode(text)) + 2 for text in texts]
        clean = self._clean()
        cleaned = [clean(text) for text in texts]
        if getattr(self._tokenizer, "tokenizer_mode", "") == "clips":  # start, end and class
            return [len(row) + 3 for row in inner(cleaned, add_special_tokens=False)["input_ids"]]
        return [len(row) for row in inner(cleaned, verbose=False)["input_ids"]]

    def _clean(self) -> Callable[[str], str]:
        from open_clip.tokenizer import basic_clean, canonicalize_text

        own: Callable[[str], str] | None = getattr(self._tokenizer, "clean_fn", None)
        return own or (lambda text: str(canonicalize_text(basic_clean(text))))


def steps_of(config: Any) -> Steps | None:
    """The library's preprocessing in steps of our own; None where it does anything unusual."""
    size = config["size"]
    height, width = (size, size) if isinstance(size, int) else (size[0], size[1])
    resample = FILTERS.get(config["interpolation"])
    mode = config["resize_mode"]
    square = mode == "shortest" and height == width
    if resample is None or not (square or mode == "squash"):
        return None
    return Steps(
        resize=height if square else (height, width),
        crop=(height, width) if square else None,
        resample=resample,
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        even=True,
    )


def _library_transform(network: Any) -> Callable[[Image], Tensor]:
    from open_clip.transform import PreprocessCfg, image_transform_v2

    config = PreprocessCfg(**network.visual.preprocess_cfg)
    transform: Callable[[Image], Tensor] = image_transform_v2(config, is_train=False)
    return transform
