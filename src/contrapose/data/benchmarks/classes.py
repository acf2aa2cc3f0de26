"""Folders of images, a class each: zero-shot classification on data of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import require_folder
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.examples import Gallery
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import IMAGE_SUFFIXES, Problem, Problems, read_lines

NAMES, TEMPLATES = "classnames.txt", "templates.txt"
TEMPLATE = "a photo of a {}."

CARD = Card(
    name="class-folders",
    title="Class folders: ImageNet-style zero-shot classification on your own folders",
    paper="prompt templates: Radford et al., Learning Transferable Visual Models From Natural "
    "Language Supervision, ICML 2021 (arXiv:2103.00020)",
    license="that of your images",
    source="any folder with a folder a class: ImageNet's val, VTAB's sets, your own",
    layout="<class>/*.jpg\n"
    f"{NAMES} (optional): a line a class, “folder<TAB>name”, or names in the sorted order of the "
    "folders\n"
    f"{TEMPLATES} (optional): a prompt a line with {{}} for the name; else “{TEMPLATE}”",
    shape="images × classes",
    family="classes",
    counts={},
    aggregation=Micro(),
    chance={},
    by=(),
)


def read(root: Path, problems: Problems) -> Gallery:
    """Read the images, class names, and the class of each image.

    Raises:
        InputError: there is no folder with an image in it, or the names do not fit the folders.
    """
    require_folder(root)
    folders = {
        folder: list(_list_images(folder)) for folder in sorted(root.iterdir()) if folder.is_dir()
    }
    folders = {folder: images for folder, images in folders.items() if folder.name[0] != "."}
    if not any(folders.values()):
        raise InputError("holds no folder with an image in it.", file=root)
    images: list[ImageRef] = []
    pairs: list[tuple[int, int]] = []
    for position, (folder, paths) in enumerate(folders.items()):
        for path in paths:
            pairs.append((len(images), position))
            images.append(ImageRef(f"{folder.name}/{path.name}", path))
    names = _read_names(root, [folder.name for folder in folders], problems)
    return Gallery(
        "class-folders", tuple(images), names, tuple(pairs), _read_templates(root, problems)
    )


def _list_images(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in IMAGE_SUFFIXES and path.name[0] != "." and path.is_file():
            yield path


def _read_names(root: Path, folders: list[str], problems: Problems) -> tuple[str, ...]:
    """Read a name for each folder: from the file when it exists, else the folder's name."""
    path = root / NAMES
    if not path.is_file():
        return tuple(name.replace("_", " ") for name in folders)
    lines = read_lines(path, problems)
    if not any("\t" in line for _, line in lines):
        if len(lines) != len(folders):
            raise InputError(
                f"holds {len(lines)} names, and there are {len(folders)} folders; "
                "“folder<TAB>name” lines need not name all in order.",
                file=path,
            )
        return tuple(line for _, line in lines)
    names: dict[str, str] = {}
    for number, line in lines:
        folder, _, name = (part.strip() for part in line.partition("\t"))
        if not name or folder in names:
            what = f"names {folder!r} twice" if folder in names else "is not “folder<TAB>name”"
            problems.report(Problem("malformed record", f"the line {what}.", path, number))
        else:
            names[folder] = name
    missing = [folder for folder in folders if folder not in names]
    if missing:
        raise InputError(f"has no name for the folder {missing[0]!r}.", file=path)
    return tuple(names[folder] for folder in folders)


def _read_templates(root: Path, problems: Problems) -> tuple[str, ...]:
    path = root / TEMPLATES
    if not path.is_file():
        return (TEMPLATE,)
    good: list[str] = []
    for number, line in read_lines(path, problems):
        if line.count("{}") == 1:
            good.append(line)
        else:
            message = f"a template must hold {{}} once, found {line!r}."
            problems.report(Problem("malformed record", message, path, number))
    if not good:
        raise InputError("holds no template with {} in it.", file=path)
    return tuple(good)


BENCHMARK = Benchmark(CARD, read)
