"""Examples (m images × n captions with a match matrix), galleries, edit and composed queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from contrapose.data.images import ImageRef
from contrapose.files import MalformedError, is_valid_unicode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TagValue = str | tuple[str, ...]
"""A tag's value; several when an example carries several tags of one kind (Diwan's, say)."""

Match = tuple[tuple[bool, ...], ...]

DEV = "dev"
"""Value of the tag `split` of edit queries that λ is chosen on."""

RATING = "rating"
"""Tag of the mean of people's ratings of an example of one image and one caption."""


MOST_CHECKED = 1024
_CHECKED: dict[int, tuple[Match, int, int]] = {}
"""Match matrices, rows and columns by identity, which many examples share: each is checked once."""


@dataclass(frozen=True, slots=True)
class Example:
    """Example: m images × n captions, and which of them belong together.

    Paths and images of Pillow become references; a single image or caption is one of them.

    Attributes:
        id: unique within its benchmark.
        images: m images.
        texts: n captions.
        match: m × n, true where image and caption belong together.
        tags: values to break results down by: subset, phenomenon, relation, …
    """

    id: str
    images: tuple[ImageRef, ...]
    texts: tuple[str, ...]
    match: Match
    tags: Mapping[str, TagValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for image in self.images if type(self.images) is tuple else (None,):
            if not isinstance(image, ImageRef):  # a loop: there may be millions of examples
                object.__setattr__(self, "images", _plain_images(self.id, self.images))
                break
        if type(self.texts) is not tuple:
            object.__setattr__(self, "texts", _plain_texts(self.id, self.texts))
        if not self.images or not self.texts:
            raise MalformedError(f"example {self.id}: needs at least one image and one caption.")
        for text in self.texts:
            if not isinstance(text, str) or not text.strip():
                raise MalformedError(f"example {self.id}: a caption is empty.")
            if not text.isascii() and not is_valid_unicode(text):
                raise MalformedError(
                    f"example {self.id}: a caption holds half of a surrogate pair."
                )
        images, texts = len(self.images), len(self.texts)
        known = _CHECKED.get(id(self.match))
        if known is not None and known[0] is self.match and known[1:] == (images, texts):
            return
        if (
            type(self.match) is not tuple
            or {type(row) for row in self.match} != {tuple}
            or ({type(fits) for row in self.match for fits in row} != {bool})
        ):
            object.__setattr__(self, "match", _plain_match(self.id, self.match))
        if len(self.match) != images or set(map(len, self.match)) != {texts}:
            raise MalformedError(
                f"example {self.id}: match must be {images} rows (images) of {texts} (captions)."
            )
        if len(_CHECKED) < MOST_CHECKED:
            _CHECKED[id(self.match)] = self.match, images, texts

    @property
    def shape(self) -> tuple[int, int]:
        """Number of images and of captions."""
        return len(self.images), len(self.texts)


def _plain_images(name: str, images: object) -> tuple[ImageRef, ...]:
    """Images of an example as a tuple of references."""
    from contrapose.data.given_images import to_image_refs

    try:
        return to_image_refs(images)
    except MalformedError as error:
        raise MalformedError(f"example {name}: {error}") from None


def _plain_texts(name: str, texts: object) -> tuple[str, ...]:
    """Captions of an example as a tuple."""
    if isinstance(texts, Iterable):
        return (texts,) if isinstance(texts, str) else tuple(texts)
    raise MalformedError(f"example {name}: captions are texts, and no {type(texts).__name__}.")


def _plain_match(name: str, match: Iterable[Iterable[object]]) -> Match:
    """Match matrix as tuples of bool, of an array or of rows with 0 and 1."""
    try:
        rows = [list(row) for row in match]
        if all(fits in (0, 1) for row in rows for fits in row):
            return tuple(tuple(bool(fits) for fits in row) for row in rows)
    except (TypeError, ValueError):  # no matrix, or one of arrays
        pass
    raise MalformedError(
        f"example {name}: match must be a row for each image, of true and false or 1 and 0."
    )


@lru_cache(1024)
def single_match(texts: int, right: int) -> Match:
    """Match matrix of one image with `texts` captions of which one is right."""
    return (tuple(index == right for index in range(texts)),)


@lru_cache(1024)
def diagonal_match(size: int) -> Match:
    """Match matrix of `size` images with as many captions, the i-th with the i-th."""
    return tuple(tuple(i == j for j in range(size)) for i in range(size))


@dataclass(frozen=True, slots=True)
class Gallery:
    """Gallery of N images × M texts to rank: retrieval, or zero-shot classes.

    Attributes:
        id: the gallery's name.
        images: N images.
        texts: M captions, or M class names.
        pairs: the (image, text) positions that belong together; a full N × M matrix of a
            5,000-image gallery would hold 125 million cells.
        templates: prompt templates with one `{}` each, for class names; empty for captions.
        distractors: (image, text) positions of adversarial captions, which were made from the
            image's own and fit no image (RoCOCO).
        text_numbers: of each text its position in the gallery that this one was cut from; empty
            for a whole gallery.
    """

    id: str
    images: tuple[ImageRef, ...]
    texts: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    templates: tuple[str, ...] = ()
    distractors: tuple[tuple[int, int], ...] = ()
    text_numbers: tuple[int, ...] = ()

    def text_name(self, text: int) -> str:
        """Name of a text as a query, which it keeps when others are left out."""
        return f"text {self.text_numbers[text] if self.text_numbers else text}"


@dataclass(frozen=True, slots=True)
class EditQuery:
    """Edit query: an image, and the word to change from `source` to `target` (SIMAT).

    Attributes:
        id: the query's name.
        image: position of the image to edit in the edit set's images.
        source: the word to replace.
        target: the word to replace it by.
        caption: position of the caption that describes the image.
        target_caption: position of the caption that the retrieved image should fit.
        weight: μ before normalization, `1/sqrt(norm2)`: frequent source words count less.
        tags: field (subj, rel, obj) and split (dev, test).
    """

    id: str
    image: int
    source: str
    target: str
    caption: int
    target_caption: int
    weight: float
    tags: Mapping[str, TagValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EditSet:
    """Retrieval database of images, captions that may describe them, and edit queries.

    Attributes:
        images: the retrieval database.
        captions: every caption that a query can have as its target.
        caption_of: for each image the position of its caption.
        queries: the edit queries.
        scale: λ, the factor of the difference of the words' vectors.
        depths: the numbers of nearest images of which one should fit.
        oracle: (images, captions) probability that an image fits a caption, NaN where it is not
            known; None: an image fits its own caption alone.
        judge: the oracle in words; empty without one.
    """

    images: tuple[ImageRef, ...]
    captions: tuple[str, ...]
    caption_of: tuple[int, ...]
    queries: tuple[EditQuery, ...]
    scale: float = 1.0
    depths: tuple[int, ...] = (1, 5)
    oracle: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    judge: str = ""

    def fits(self) -> NDArray[np.bool_]:
        """(images, captions) whether an image fits a caption: its probability is above ½."""
        import numpy as np

        if self.oracle is not None:
            return np.asarray(self.oracle > 0.5)
        exact = np.zeros((len(self.images), len(self.captions)), dtype=np.bool_)
        exact[np.arange(len(self.images)), self.caption_of] = True
        return exact


@dataclass(frozen=True, slots=True)
class ComposedQuery:
    """Composed query: an image, and a text that says what to change in it.

    Attributes:
        id: the query's name.
        image: position of the reference image in the set's images.
        texts: the text; several are wordings of one text, whose vectors are averaged, and without
            any the image stands for it.
        relevant: positions of the images to retrieve; empty where the benchmark keeps them secret.
        gallery: position of its gallery in the set's galleries.
        subset: positions of a few images among which it is ranked as well (CIRR); may be empty.
        tags: values to break results down by.
    """

    id: str
    image: int
    texts: tuple[str, ...]
    relevant: tuple[int, ...]
    gallery: int = 0
    subset: tuple[int, ...] = ()
    tags: Mapping[str, TagValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComposedSet:
    """Composed queries, and the galleries of images that they are ranked in.

    Attributes:
        images: every image, of galleries and queries; no two have the same key.
        galleries: positions of the images of each gallery.
        queries: the composed queries.
        recall_at: the K of recall at K.
        subset_recall_at: the K of recall at K among the images of a query's subset.
        precision_at: the K of mean average precision at K.
        keep_reference: whether a query's own image stays in its gallery.
        rule: which images the galleries hold, in words.
        listed: whether the galleries are complete; else only images that the annotations name are
            known, and a ranking may name others.
    """

    images: tuple[ImageRef, ...]
    galleries: tuple[tuple[int, ...], ...]
    queries: tuple[ComposedQuery, ...]
    recall_at: tuple[int, ...] = ()
    subset_recall_at: tuple[int, ...] = ()
    precision_at: tuple[int, ...] = ()
    keep_reference: bool = False
    rule: str = ""
    listed: bool = True


def query_examples(data: Gallery | EditSet | ComposedSet) -> dict[str, Example]:
    """Queries as examples, by their unit ids: the image, and the captions that it is asked with.

    An image of a gallery has its captions, a caption its images; an edit its start image with the
    change and the caption to reach; a composed query its image and text.
    """
    examples: list[Example] = []
    if isinstance(data, Gallery):
        texts_of: dict[int, list[int]] = {}
        images_of: dict[int, list[int]] = {}
        for image, text in data.pairs:
            texts_of.setdefault(image, []).append(text)
            images_of.setdefault(text, []).append(image)
        for image, texts in texts_of.items():
            captions = tuple(data.texts[text] for text in texts)
            examples.append(
                _query(f"image {data.images[image].key}", (data.images[image],), captions)
            )
        for text, images in images_of.items():
            refs = tuple(data.images[image] for image in images)
            examples.append(_query(data.text_name(text), refs, (data.texts[text],)))
    elif isinstance(data, EditSet):
        for query in data.queries:
            words = f"{query.source} → {query.target}: {data.captions[query.target_caption]}"
            examples.append(_query(query.id, (data.images[query.image],), (words,)))
    else:
        for asked in data.queries:
            if asked.texts:
                examples.append(_query(asked.id, (data.images[asked.image],), asked.texts))
    return {example.id: example for example in examples}


def _query(name: str, images: tuple[ImageRef, ...], texts: tuple[str, ...]) -> Example:
    return Example(name, images, texts, ((True,) * len(texts),) * len(images))
