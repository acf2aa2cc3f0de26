"""The user's own records in their plainest form, of which a file may hold a million.

What is said by names of images, texts, one right caption or a match, and tags of one text each is
read here, with few steps a record. Anything else, and everything that is wrong, is left to the
careful reader, which says where and why.
"""

from __future__ import annotations

from pathlib import Path

from contrapose.data.example import Example, Match, TagValue, one_right
from contrapose.data.images import ImageRef
from contrapose.files import Malformed, Record, inside

FIELDS = frozenset(("id", "image", "images", "texts", "right", "match", "tags"))


class Plain:
    """Examples of plain records; what many of them share is made once.

    Attributes:
        root: what names of images are relative to.
    """

    def __init__(self, root: Path):
        self.root = root
        self._images: dict[str, ImageRef] = {}
        self._alone: dict[str, tuple[ImageRef]] = {}
        self._rights: dict[tuple[int, int], Match] = {}
        self._matches: dict[Match, Match] = {}

    def example(self, record: Record) -> Example | None:
        """The record's example; None where it must be read with care."""
        value = record.value
        try:
            if not FIELDS.issuperset(value):
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
            images = self._shown(names)
            match = self._match(value, len(images), len(texts))
            tags = self._tags(value["tags"]) if "tags" in value else {}
            return Example(name, images, tuple(texts), match, tags)
        except (Malformed, TypeError, KeyError, AttributeError):
            return None

    def image(self, name: str) -> ImageRef:
        """The image of a name.

        Raises:
            Malformed: the name leads out of the root.
        """
        found = self._images.get(name)
        if found is None:
            if not isinstance(name, str):
                raise Malformed("an image path is no text.")
            found = self._images[name] = ImageRef(name, inside(self.root, name))
        return found

    def _shown(self, names: list[str]) -> tuple[ImageRef, ...]:
        if len(names) == 1:
            found = self._alone.get(names[0])
            if found is None:
                found = self._alone[names[0]] = (self.image(names[0]),)
            return found
        return tuple([self.image(name) for name in names])

    def _match(self, value: dict[str, object], images: int, texts: int) -> Match:
        rows = value.get("match")
        if rows is None:
            right = value["right"]
            if images != 1 or type(right) is not int or not 0 <= right < texts:
                raise Malformed("it is not plain which caption is right.")
            found = self._rights.get((texts, right))
            if found is None:
                found = self._rights[texts, right] = one_right(texts, right)
            return found
        if type(rows) is not list or not all(type(row) is list for row in rows):
            raise Malformed("it is no list of rows.")
        given: Match = tuple(map(tuple, rows))
        kept = self._matches.get(given)
        if kept is None:
            if not any(map(any, given)) or not {each for row in given for each in row} <= {0, 1}:
                raise Malformed("it is not all true and false.")
            kept = self._matches[given] = tuple(tuple(map(bool, row)) for row in given)
        return kept

    @staticmethod
    def _tags(given: object) -> dict[str, TagValue]:
        if type(given) is not dict:
            raise Malformed("they are no object.")
        for each in given.values():
            if type(each) is not str or not each:
                raise Malformed("one is not one text.")
        return given
