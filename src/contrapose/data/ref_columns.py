"""Columns of image references, of which each is built when it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from contrapose.data.images import ImageRef
from contrapose.data.text_columns import TextColumn
from contrapose.files import safe_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contrapose.data.text_columns import Positions

NOT_PLAIN = r"^[\p{Z}\p{Cc}]*$|^/|^[A-Za-z]:|[\\\x00]|(?:^|/)\.{0,2}(?:/|$)"
"""Names that `safe_join` refuses, or whose path is written in another way."""


class RefColumn(Sequence[ImageRef]):
    """Sequence of distinct images, none a video, of which each reference is built when it is read.

    Attributes:
        names: of the images.
        build: builds the reference of an image from its name.
    """

    def __init__(self, names: TextColumn, build: Callable[[str], ImageRef]):
        self.names, self.build = names, build

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> ImageRef: ...

    @overload
    def __getitem__(self, index: slice) -> list[ImageRef]: ...

    def __getitem__(self, index: int | slice) -> ImageRef | list[ImageRef]:
        if isinstance(index, slice):
            return list(map(self.build, self.names[index]))
        return self.build(self.names[index])

    def __iter__(self) -> Iterator[ImageRef]:
        return map(self.build, self.names)

    def take(self, positions: Positions) -> RefColumn:
        """Select images in this order."""
        return RefColumn(self.names.take(positions), self.build)


class FileColumn(RefColumn):
    """Sequence of image files of a folder, by plain names; a name is the key of its image.

    Attributes:
        root: the folder.
    """

    def __init__(self, names: TextColumn, root: Path):
        """Hold names of which `are_plain_names` is true."""
        super().__init__(names, self._build)
        self.root = root
        self._folder = str(safe_join(root, "a"))[:-1]

    def _build(self, name: str) -> ImageRef:
        return ImageRef(name, Path(self._folder + name))

    def take(self, positions: Positions) -> FileColumn:
        """Select images in this order."""
        return FileColumn(self.names.take(positions), self.root)

    def span(self, start: int, stop: int) -> FileColumn:
        """Images from one position to another, which is not among them."""
        names = TextColumn(self.names.data, self.names.offsets[start : stop + 1])
        return FileColumn(names, self.root)

    def paths(self, start: int, stop: int) -> list[str]:
        """Paths of the images of a span."""
        return list(map(self._folder.__add__, self.names[start:stop]))


def take_refs(refs: Sequence[ImageRef], positions: Positions) -> Sequence[ImageRef]:
    """Select images in this order."""
    if isinstance(refs, RefColumn):
        return refs.take(positions)
    return [refs[i] for i in positions.tolist()]


def keys_of(refs: Sequence[ImageRef]) -> Sequence[str]:
    """Keys of images."""
    return refs.names.values if isinstance(refs, FileColumn) else [ref.key for ref in refs]


def are_plain_names(names: TextColumn, suffixes: Sequence[str]) -> bool:
    """Whether all names are plain: paths below a folder, as they are, without one of the suffixes.

    Args:
        names: of files.
        suffixes: endings in lower case.
    """
    import pyarrow.compute as pc

    endings = "|".join(suffix.replace(".", r"\.") for suffix in suffixes)
    special = pc.match_substring_regex(names.to_arrow(), rf"{NOT_PLAIN}|(?i:{endings})$")
    return not pc.any(special).as_py()
