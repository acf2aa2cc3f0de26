"""Search queries and results: texts, images, changes of words, the fusion of them, and hits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from contrapose.data.images import bytes_id, decode_image
from contrapose.errors import InputError, option
from contrapose.files import require_text
from contrapose.metrics import FloatArray
from contrapose.metrics.fusion import FUSIONS, Fusion, check_scale, require_fusion

if TYPE_CHECKING:
    from PIL.Image import Image

CALIBRATION_SHARE = 0.05
"""Share of the index that shows how far along a change real images lie."""

MAX_SCALE = 10.0
"""Largest calibrated λ; only words that a model hardly tells apart come near it."""

ARROWS = ("->", "→", "=>")
"""What stands between the words of a change."""

AVOIDED = re.compile(r"""(?<!\S)-(?:"([^"]*)"|([^\s>"]\S*))""")
"""A word to avoid in a line of edits: `-rain`, or `-"red cars"`."""

MAX_CAPTIONS = 500
"""Captions that a sentence-average delta is the mean of at the most."""


@dataclass(frozen=True, slots=True)
class ImageBytes:
    """Image source: the bytes of a file that need not be on disk."""

    data: bytes = field(repr=False)

    @property
    def content(self) -> str:
        """Content id, that of a file with these bytes."""
        return bytes_id(self.data)

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Decode the images."""
        return [decode_image(source.data) for source in sources]


@dataclass(frozen=True, slots=True)
class WordChange:
    """Change of a word: `source` becomes `target`.

    An empty source adds the target, an empty target removes the source.
    """

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}".strip()


def parse_change(text: str | WordChange) -> WordChange:
    """Parse a change such as `cat -> dog`; one side may be empty.

    Raises:
        InputError: there is not exactly one arrow, or both sides are empty or equal.
    """
    if isinstance(text, WordChange):
        change = text
    else:
        arrow = next((arrow for arrow in ARROWS if arrow in text), None)
        sides = text.split(arrow) if arrow else []
        if len(sides) != 2:
            raise InputError(f"a change is written as 'cat -> dog', found {text!r}.")
        change = WordChange(sides[0].strip(), sides[1].strip())
    if change.source == change.target:
        raise InputError(f"the change {str(change)!r} changes nothing.")
    return change


def parse_edits(line: str) -> tuple[str | None, tuple[WordChange, ...]]:
    """Parse a line such as `cat -> dog, at night -rain`: free text, and changes.

    Commas, semicolons and line ends separate parts. A part with an arrow is a change, `-rain` and
    `-"red cars"` remove words, and the rest is free text.

    Raises:
        InputError: a change is malformed.
    """
    texts: list[str] = []
    changes: list[WordChange] = []
    for part in re.split(r"[,;\n]", line):
        rest = " ".join(AVOIDED.sub(" ", part).split())
        if any(arrow in rest for arrow in ARROWS):
            changes.append(parse_change(rest))
        elif rest:
            texts.append(rest)
        words = (quoted or word for quoted, word in AVOIDED.findall(part))
        changes += [WordChange(word.strip(), "") for word in words if word.strip()]
    return ", ".join(texts) or None, tuple(dict.fromkeys(changes))


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Search query.

    Attributes:
        text: free text.
        image: file of an image, or the bytes of one.
        changes: words to replace in what the image, or the text, shows; a target may be empty.
        fusion: name of the fusion; None chooses by what is given.
        scale: λ of the fusion; None calibrates it for `delta`, else the fusion's default.
        captions: captions for sentence-average deltas; empty takes the words themselves.
    """

    text: str | None = None
    image: Path | bytes | None = None
    changes: tuple[WordChange, ...] = ()
    fusion: str | None = None
    scale: float | None = None
    captions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, texts in (("text", [self.text or ""]), ("captions", self.captions)):
            for text in texts:
                require_text(name, text)
        for change in self.changes:
            require_text("change", str(change))
        if self.text is not None and not self.text.strip():
            raise InputError("the text of a query must not be empty.")
        if self.text is None and self.image is None:
            if any(change.target for change in self.changes):
                raise InputError(f"a change needs an {option('image')} or a {option('text')}.")
            raise InputError(f"a query needs a {option('text')} or an {option('image')}.")

    @property
    def fused_text(self) -> str | None:
        """Text that the image is fused with: the free text, or the targets of the changes."""
        if self.text is not None or self.fusion in (None, "delta", "image", "text"):
            return self.text
        return ", ".join(change.target for change in self.changes if change.target) or None

    def choose_fusion(self) -> Fusion:
        """Return the fusion of the query.

        Without a name: `delta` for an image or text with changes, `weicom` for an image with a
        text, `image` and `text` for one of them alone.

        Raises:
            InputError: the fusion needs what the query does not have, or takes no λ.
        """
        if self.fusion is not None:
            fusion = require_fusion(self.fusion)
        elif self.image is not None and self.text is not None:
            fusion = FUSIONS["weicom"]
        elif self.changes:
            fusion = FUSIONS["delta"]
        else:
            fusion = FUSIONS["image" if self.image is not None else "text"]
        if fusion.name == "delta" and not self.changes:
            raise InputError(f"the fusion delta needs a {option('change')}.")
        if fusion.name == "text" and self.text is None:
            raise InputError(f"the fusion text needs a {option('text')}.")
        if fusion.name not in ("delta", "text") and self.image is None:
            raise InputError(f"the fusion {fusion.name} needs an {option('image')}.")
        if "text" in fusion.needs and self.image is not None and self.fused_text is None:
            raise InputError(f"the fusion {fusion.name} needs a {option('text')}.")
        if fusion.name == "delta" and self.image is not None and self.text is not None:
            raise InputError(f"the fusion delta takes no {option('text')} beside an image.")
        check_scale(fusion, self.scale)
        return fusion


def sentence_pairs(change: WordChange, captions: Sequence[str]) -> list[tuple[str, str]]:
    """Captions that contain the source word, each with the word replaced by the target.

    Words are compared without case, and only whole ones count. At most 500 captions are taken, the
    first ones.

    Raises:
        InputError: no caption contains the word.
    """
    word = re.compile(rf"(?<!\w){re.escape(change.source)}(?!\w)", re.IGNORECASE)
    pairs: list[tuple[str, str]] = []
    for caption in captions:
        replaced = " ".join(word.sub(lambda _: change.target, caption).split())
        if replaced and word.search(caption):
            pairs.append((caption, replaced))
            if len(pairs) == MAX_CAPTIONS:
                break
    if not pairs:
        raise InputError(
            f"no caption of {option('captions')} contains {change.source!r}; leave "
            f"{option('captions')} out to compare the words themselves."
        )
    return pairs


@dataclass(frozen=True, slots=True)
class Hit:
    """Image that a search returns.

    Attributes:
        rank: 1 for the best.
        row: row in the index.
        path: relative to the index's root.
        score: by which hits are ranked; a cosine for fusions with one query vector.
        image_cosine: with the query image; None without one.
        text_cosine: with the query text; None without one.
        changes: for each change ⟨v, target − source⟩: how far the image lies along it.
    """

    rank: int
    row: int
    path: str
    score: float
    image_cosine: float | None = None
    text_cosine: float | None = None
    changes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a search, which `to_dict` makes fit for JSON.

    Attributes:
        query: the query.
        hits: best first.
        fusion: name of the fusion.
        scale: λ; None where the fusion has none.
        calibrated: whether λ comes from the index.
        left_out: paths of the query image in the index.
        notes: remarks for the reader.
        model: name of the model.
        root: folder of the images.
    """

    query: SearchQuery
    hits: tuple[Hit, ...]
    fusion: str
    scale: float | None
    calibrated: bool
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    model: str
    root: Path

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a query image given as bytes is named so."""
        image = self.query.image
        return {
            "model": self.model,
            "root": str(self.root),
            "query": {
                "text": self.query.text,
                "image": "bytes" if isinstance(image, bytes) else image and str(image),
                "changes": [[change.source, change.target] for change in self.query.changes],
            },
            "fusion": self.fusion,
            "lambda": self.scale,
            "calibrated": self.calibrated,
            "left_out": list(self.left_out),
            "notes": list(self.notes),
            "hits": [
                {
                    "rank": hit.rank,
                    "path": hit.path,
                    "score": hit.score,
                    "image_cosine": hit.image_cosine,
                    "text_cosine": hit.text_cosine,
                    "changes": list(hit.changes),
                }
                for hit in self.hits
            ],
        }


def calibrate_scale(base: FloatArray, direction: FloatArray, sample: FloatArray) -> float:
    """Calibrate λ of a change on images of the index, without labels.

    The edited query x(λ) = image + λ·d, scaled to unit length, should lie as far along the change d
    as real images do: ⟨x(λ), d⟩ = mean of ⟨v, d⟩ over the `CALIBRATION_SHARE` of the index that
    lies furthest along it. The left side grows with λ, so that there is one solution; where the
    image lies further already, λ is 0.

    Args:
        base: (d,) unit vector of the query image.
        direction: (d,) target − source, the sum over all changes.
        sample: (n, d) unit vectors of images.
    """
    length = float(np.linalg.norm(direction))
    if length < 1e-6 or not len(sample):
        return 0.0
    along = np.asarray(sample @ direction, dtype=np.float64) / length
    count = max(1, round(CALIBRATION_SHARE * len(along)))
    goal = min(float(np.partition(along, len(along) - count)[-count:].mean()), 0.999)
    start = float(base @ direction) / length
    across = np.sqrt(max(0.0, 1 - start**2))
    # (start + λ·length) / √((start + λ·length)² + across²) = goal
    needed = goal * across / np.sqrt(1 - goal**2)
    return float(np.clip((needed - start) / length, 0.0, MAX_SCALE))
