"""A whole model as the encoder of a side: its own vectors, before any head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.errors import InputError
from contrapose.models.blanking import Normalises
from contrapose.models.capabilities import Described, Encoder, Prepares, Reads
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import Picture, Prepared


def load_whole(source: str, folder: Path, options: LoadOptions) -> Any:
    """The model that a `joined.json` in a folder names.

    Raises:
        InputError: it is that folder itself, or it gives no vectors that a head could take.
    """
    from contrapose.models.registry import load_model

    if Path(source).expanduser().resolve() == folder.resolve():
        raise InputError("names itself as its encoder.", file=folder)
    return require_whole(
        load_model(
            source,
            device=options.device,
            dtype=options.dtype,
            cut=options.cut,
            trust_remote_code=options.trust_remote_code,
        )
    )


def require_whole(model: Any) -> Any:
    """The model, if a head can be put on either side of it.

    Raises:
        InputError: it gives no vectors, or several of an image.
    """
    if not isinstance(model, Encoder):
        raise InputError(f"{model.name} gives no vectors of images and captions: it has no itc.")
    if getattr(model, "pool", None):
        raise InputError(f"{model.name} gives several vectors of an image, and a head takes one.")
    if not (isinstance(model, Prepares) and isinstance(model, Reads)):
        raise InputError(
            f"{model.name} does not say how it prepares images and counts tokens, which heads need."
        )
    return model


class WholeImages:
    """Images as a model sees them.

    Attributes:
        model: whose vectors are taken.
        fingerprint: the model's.
        preprocessing: what happens to an image, in words.
        parameters: number of weights, where the model says so.
    """

    def __init__(self, model: Any):
        self.model = model
        self.fingerprint: str = model.fingerprint
        card = model.card if isinstance(model, Described) else None
        self.preprocessing = f"as {model.name} does" if card is None else card.preprocessing
        self.parameters = 0 if card is None else card.parameters

    def prepare(self, image: Image) -> Prepared:
        """One image as the model takes it."""
        found: Prepared = self.model.prepare_image(image)
        return found

    def normalise(self, prepared: Prepared) -> Prepared:
        """A prepared image, normalised; models that leave nothing for later have done so."""
        return self.model.normalise_image(prepared) if self._later else prepared

    @property
    def mean(self) -> tuple[float, ...] | None:
        """The colour that is zero for the model."""
        found: tuple[float, ...] | None = getattr(self.model, "pixel_mean", None)
        return found

    def features(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        found: Tensor = self.model.embed_images(images)
        return found

    @property
    def _later(self) -> bool:
        return isinstance(self.model, Normalises)


class WholeTexts:
    """Captions as a model reads them.

    Attributes:
        model: whose vectors are taken.
        fingerprint: the model's.
        pool: nothing is pooled here.
        masks: how the model can hide words.
        parameters: number of weights, where the model says so.
    """

    pool = "model"

    def __init__(self, model: Any):
        self.model = model
        self.fingerprint: str = model.fingerprint
        self.masks: tuple[Any, ...] = tuple(getattr(model, "text_masks", ()))
        self.parameters = model.card.parameters if isinstance(model, Described) else 0

    @property
    def context(self) -> int:
        """Most tokens of a caption."""
        found: int = self.model.context
        return found

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        found: bool = self.model.cuts
        return found

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut."""
        return list(self.model.token_counts(texts))

    def features(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        found: Tensor = self.model.embed_texts(texts)
        return found
