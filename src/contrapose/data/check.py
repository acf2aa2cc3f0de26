"""Check of a benchmark's files: count examples, decode every image once, list all problems."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from contrapose.data.cards import Benchmark, BenchmarkData, Card
from contrapose.data.examples import ComposedSet, EditSet, Example, Gallery, TagValue
from contrapose.data.images import ImageRef, open_image
from contrapose.data.video import iterate_frames
from contrapose.data.video_clips import VideoClip
from contrapose.data.video_frames import FrameImage
from contrapose.errors import InputError, SubsetError
from contrapose.files import MalformedError, Problem, ProblemList, resolve_name

ImageProgress = Callable[[int, int], None]
"""Progress callback, called after each image: images done, and their total."""


@dataclass(frozen=True, slots=True)
class DataReport:
    """Report of a check of a benchmark's files.

    Attributes:
        benchmark: its name.
        root: the folder.
        examples: number of readable examples of each subset (images of a gallery, queries of an
            edit set or of a composed set).
        expected: number of examples in the released files, from the card.
        images: number of distinct images; another crop of a photograph counts again.
        opened: number of images that were fully decoded; 0 when images are not checked.
        captions: number of distinct captions.
        problems: malformed records, duplicate ids, missing or unreadable images.
        notes: oddities that do no harm: other counts, images under another suffix, …
    """

    benchmark: str
    root: Path
    examples: Mapping[str, int]
    expected: Mapping[str, int]
    images: int
    opened: int
    captions: int
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no problems; notes do not count."""
        return not self.problems


def check_data(
    benchmark: Benchmark,
    root: Path,
    *,
    images: bool = True,
    workers: int = 8,
    counted: Collection[str] | None = None,
    progress: ImageProgress | None = None,
) -> DataReport:
    """Read all records, open every image once, and report all problems.

    Raises for nothing in the files but a subset that they lack: a file that cannot be read at all
    is a problem too.

    Args:
        benchmark: the benchmark to check.
        root: its folder.
        images: also decode the images; off, only the annotations are checked.
        workers: threads that open images.
        counted: subsets that are read completely, so that their counts are compared with the
            card's; None is all of them.
        progress: called after each image.
    """
    survey = _Survey(benchmark.card)
    try:
        survey.take(benchmark.read(root, survey.problems))
    except SubsetError:
        raise
    except InputError as error:
        file = None if error.file is None else Path(error.file)
        survey.problems.report(Problem("unreadable file", error.message, file, error.line))
    except MalformedError as error:
        survey.problems.report(Problem("malformed record", str(error), root))
    except OSError as error:
        message = f"cannot be read ({error.strerror})."
        survey.problems.report(Problem("unreadable file", message, Path(error.filename or root)))
    expected = {
        subset: count
        for subset, count in benchmark.card.counts.items()
        if counted is None or subset in counted
    }
    opened = 0
    refs = tuple(survey.images.values()) if images else ()
    done = 0
    for group, fault in _open_all(_group_frames(refs), max(1, workers)):
        if fault is None:
            opened += len(group)
            survey.note_name(group[0])
        else:
            survey.problems.report(fault)
        done += len(group)
        if progress is not None:
            progress(done, len(refs))
    return DataReport(
        benchmark=benchmark.card.name,
        root=root,
        examples=dict(survey.examples),
        expected=expected,
        images=len(survey.images),
        opened=opened,
        captions=len(survey.captions),
        problems=tuple(survey.problems.problems),
        notes=(*survey.counts(expected), *survey.notes),
    )


@dataclass(slots=True)
class _Survey:
    """Running counts and problems of a check."""

    card: Card
    problems: ProblemList = field(default_factory=ProblemList)
    notes: list[Problem] = field(default_factory=list)
    examples: Counter[str] = field(default_factory=Counter)
    images: dict[tuple[object, ...], ImageRef] = field(default_factory=dict)
    captions: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    def take(self, data: BenchmarkData) -> None:
        """Survey the data that the reader gave."""
        if isinstance(data, Gallery):
            self._gallery(data)
        elif isinstance(data, EditSet):
            self._queries(data)
            self.captions.update(data.captions)
        elif isinstance(data, ComposedSet):
            self._queries(data)
            self.captions.update(text for query in data.queries for text in query.texts)
        else:
            for example in data:
                self._example(example)

    def counts(self, expected: Mapping[str, int]) -> Iterator[Problem]:
        """Yield a note for every subset whose count differs from the expected one."""
        for subset, released in expected.items():
            count = self.examples[subset]
            if count != released:
                message = f"{subset}: {count:,} examples, and the released files have {released:,}."
                yield Problem("other count", message)

    def note_name(self, ref: ImageRef) -> None:
        """Record a note for an image that exists under another name."""
        if ref.path is None or ref.cell is not None:
            return
        actual = resolve_name(ref.path)
        if actual is not None and actual != ref.path:
            self.notes.append(Problem("other name", f"is there as {actual.name}.", ref.path))

    def _example(self, example: Example) -> None:
        self._count(example.id, example.tags)
        self.captions.update(example.texts)
        for image in example.images:
            self._image(image)
        for row, image in zip(example.match, example.images, strict=True):
            right = {text for text, fits in zip(example.texts, row, strict=True) if fits}
            wrong = {text for text, fits in zip(example.texts, row, strict=True) if not fits}
            for text in sorted(right & wrong):
                message = f"example {example.id}: {text!r} is right and wrong of {image.key}."
                self.notes.append(Problem("same caption", message))
        if len({_image_key(image) for image in example.images}) < len(example.images):
            message = f"example {example.id}: two of its images are the same."
            self.notes.append(Problem("same image", message))

    def _gallery(self, gallery: Gallery) -> None:
        self.examples[self._subset({"subset": gallery.id})] = len(gallery.images)
        self.captions.update(gallery.texts)
        for image in gallery.images:
            self._image(image)
        used = {text for _, text in (*gallery.pairs, *gallery.distractors)}
        for position in sorted(set(range(len(gallery.texts))) - used):
            message = f"no image belongs to {gallery.texts[position]!r}."
            self.notes.append(Problem("no image", message))

    def _queries(self, data: EditSet | ComposedSet) -> None:
        for image in data.images:
            self._image(image)
        for query in data.queries:
            self._count(query.id, query.tags)

    def _count(self, name: str, tags: Mapping[str, TagValue]) -> None:
        if name in self.ids:
            message = f"the id {name!r} comes more than once."
            self.problems.report(Problem("duplicate id", message))
        self.ids.add(name)
        self.examples[self._subset(tags)] += 1

    def _image(self, ref: ImageRef) -> None:
        self.images.setdefault(_image_key(ref), ref)

    def _subset(self, tags: Mapping[str, TagValue]) -> str:
        """Return the subset that the card counts an example under."""
        if len(self.card.counts) == 1:
            return next(iter(self.card.counts))
        values = [tags[name] for name in ("subset", *self.card.by, *self.card.tags) if name in tags]
        named = [value for value in values if isinstance(value, str)]
        counted = [value for value in named if value in self.card.counts]
        return next(iter((*counted, *named)), self.card.name)


def _image_key(ref: ImageRef) -> tuple[object, ...]:
    return ref.path, ref.crop, ref.square, ref.cell, ref.channels, ref.source


RefGroup = tuple[ImageRef, ...]
"""One image, or the frames of one video."""


def _group_frames(refs: tuple[ImageRef, ...]) -> list[RefGroup]:
    """Group the frames of each video, which is then decoded once; other images stay alone."""
    groups: dict[object, list[ImageRef]] = {}
    for i, ref in enumerate(refs):
        groups.setdefault(ref.source.path if isinstance(ref.source, FrameImage) else i, []).append(
            ref
        )
    return list(map(tuple, groups.values()))


def _open_all(
    groups: Sequence[RefGroup], workers: int
) -> Iterator[tuple[RefGroup, Problem | None]]:
    """Open the images in threads, a few ahead and in order; yield each group with its problem."""
    waiting: deque[tuple[RefGroup, Future[Problem | None]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for group in groups:
            waiting.append((group, pool.submit(_find_fault, group)))
            if len(waiting) > 4 * workers:
                oldest, future = waiting.popleft()
                yield oldest, future.result()
        while waiting:
            oldest, future = waiting.popleft()
            yield oldest, future.result()


def _find_fault(group: RefGroup) -> Problem | None:
    """Decode an image or the frames of a video fully; return the first problem, or None."""
    ref = group[0]
    if isinstance(ref.source, FrameImage):
        return _find_video_fault(ref.source.path, group)
    if isinstance(ref.source, VideoClip):
        return _find_clip_fault(ref.source, ref.key)
    if ref.path is not None and ref.cell is None and resolve_name(ref.path) is None:
        return Problem("missing image", "the image is not there.", ref.path)
    try:
        open_image(ref).close()
    except InputError as error:
        return Problem("unreadable image", error.message, ref.path)
    return None


def _find_clip_fault(clip: VideoClip, key: str) -> Problem | None:
    if _is_missing(clip.path):
        return Problem("missing video", "the video is not there.", clip.path)
    try:
        return _find_video_fault(clip.path, clip.list_frames(key))
    except InputError as error:
        return Problem("unreadable video", error.message, clip.path)


def _find_video_fault(path: Path, group: RefGroup) -> Problem | None:
    times = [ref.source.time for ref in group if isinstance(ref.source, FrameImage)]
    if _is_missing(path):
        return Problem("missing video", "the video is not there.", path)
    try:
        faults = [one for _, one in iterate_frames(path, times) if isinstance(one, InputError)]
    except InputError as error:
        return Problem("unreadable video", error.message, path)
    return Problem("missing frame", faults[0].message, path) if faults else None


def _is_missing(path: Path) -> bool:
    """Whether there is no such file; where the system refuses to look, reading it says why."""
    try:
        return not path.exists()
    except OSError:
        return False
