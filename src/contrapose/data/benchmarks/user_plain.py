"""Plain records of a user's file: names of images, texts, one right caption or a match, and tags.

They are read in few steps; whatever else a record says is left to the careful reader.
"""

from __future__ import annotations

from pathlib import Path

from contrapose.data.benchmarks.user_videos import is_video_name
from contrapose.data.examples import Example, Match, TagValue, single_match
from contrapose.data.images import ImageRef
from contrapose.data.video_clips import VideoRef
from contrapose.files import MalformedError, Record, safe_join

PLAIN_FIELDS = frozenset(("id", "image", "images", "texts", "right", "match", "tags"))


class PlainReader:
    """Fast reader of plain records; images and matches that many share are built once.

    Attributes:
        root: what names of images are relative to.
    """

    def __init__(self, root: Path):
        self.root = root
        self._images: dict[str, ImageRef] = {}
        self._alone: dict[str, tuple[ImageRef]] = {}
        self._matches: dict[Match, Match] = {}

    def example(self, record: Record) -> Example | None:
        """Build the record's example; None where the careful reader is needed."""
        value = record.value
        try:
            if not PLAIN_FIELDS.issuperset(value):
                return None
            name, names, texts = value.get("id"), value.get("images"), value["texts"]
            if name is None:
                name = record.key
            elif type(name) is not str or not name.isascii() or not name or name.isspace():
                return None
            if names is None:
                names = [value["image"]]
            if type(names) is not list or type(texts) is not list:
                return None
            images = self._refs(names)
            match = self._match(value, len(images), len(texts))
            tags = self._tags(value["tags"]) if "tags" in value else {}
            return Example(name, images, tuple(texts), match, tags)
        except (MalformedError, TypeError, KeyError, AttributeError):
            return None

    def image(self, name: str) -> ImageRef:
        """Reference the image of a name.

        Raises:
            MalformedError: the name leads out of the root.
        """
        ref = self._images.get(name)
        if ref is None:
            if not isinstance(name, str):
                raise MalformedError("an image path is no text.")
            ref = self._images[name] = self.build_image(name)
        return ref

    def build_image(self, name: str) -> ImageRef:
        """Build the reference of an image anew, as `image` does once for each name."""
        path = safe_join(self.root, name)
        return VideoRef(path, key=name) if is_video_name(name) else ImageRef(name, path)

    def _refs(self, names: list[str]) -> tuple[ImageRef, ...]:
        if len(names) == 1:
            single = self._alone.get(names[0])
            if single is None:
                single = self._alone[names[0]] = (self.image(names[0]),)
            return single
        return tuple([self.image(name) for name in names])

    def _match(self, value: dict[str, object], images: int, texts: int) -> Match:
        rows = value.get("match")
        if rows is None:
            right = value["right"]
            if images != 1 or type(right) is not int or not 0 <= right < texts:
                raise MalformedError("it is not plain which caption is right.")
            return single_match(texts, right)
        if type(rows) is not list or not all(type(row) is list for row in rows):
            raise MalformedError("it is no list of rows.")
        given: Match = tuple(map(tuple, rows))
        match = self._matches.get(given)
        if match is None:
            if not any(map(any, given)) or not {cell for row in given for cell in row} <= {0, 1}:
                raise MalformedError("it is not all true and false.")
            match = self._matches[given] = tuple(tuple(map(bool, row)) for row in given)
        return match

    @staticmethod
    def _tags(tags: object) -> dict[str, TagValue]:
        if type(tags) is not dict:
            raise MalformedError("they are no object.")
        for value in tags.values():
            if type(value) is not str or not value:
                raise MalformedError("one is not one text.")
        return tags
