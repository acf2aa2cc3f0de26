"""Vector spaces of indexes: which encoders can search vectors that another one made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.errors import InputError
from contrapose.models import Model
from contrapose.models.sides import embeds_side, vector_space

if TYPE_CHECKING:
    from contrapose.search.index import Index


def declare_space(model: Model) -> str:
    """Space that an index notes of its model: empty where the fingerprint says it all."""
    space = vector_space(model)
    return "" if space == model.fingerprint else space


def fits_space(model: Model, fingerprint: str, space: str, name: str) -> bool:
    """Whether an encoder's vectors can be compared with those of an index.

    A text encoder alone is believed what it declares. One that embeds images too must be the model
    that made the index, or the one that its image encoder is a side of.

    Args:
        model: the encoder.
        fingerprint: of the model that made the index.
        space: of its vectors; empty where it is unknown.
        name: of the model that made the index, which a text encoder may name as its space.
    """
    if embeds_side(model, "image"):
        return model.fingerprint in (fingerprint, space)
    return vector_space(model) in {fingerprint, space, name} - {""}


def require_text_encoder(index: Index, model: Model) -> None:
    """Refuse an encoder of texts whose vectors cannot be compared with those of the index.

    Raises:
        InputError: it is another model, and declares another space or none.
    """
    if fits_space(model, index.fingerprint, index.space, index.model):
        return
    if embeds_side(model, "image"):
        index.require_model(model.fingerprint, model.name)
    raise InputError(
        f"is an index of {index.model}, whose vectors are of the space "
        f"{index.space or index.fingerprint!r}, and the text encoder {model.name} is of the space "
        f"{vector_space(model)!r}: if they were made for each other, put the text encoder in "
        f'a joined.json whose "space" is {index.model!r}.',
        file=index.folder,
    )
