"""A caption and several images, one of them right: SPEC (both ways), SVO-Probes, ImageCoDe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image, require_folder
from contrapose.data.cards import Benchmark, Card, Macro, Micro, Suite
from contrapose.data.downloads import Download, HubFiles, Manual, github_files
from contrapose.data.examples import Example, Match, TagValue, single_match
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_csv_records,
    read_json_records,
    safe_join,
)

SPEC_SUBSETS = (
    "absolute_size",
    "relative_size",
    "absolute_spatial",
    "relative_spatial",
    "existence",
    "count",
)
SPEC_COUNTS = {"absolute_size": 1500, "relative_size": 1500, "existence": 1000, "count": 4500}
"""Examples of the subsets whose size is published; those of the spatial ones are not known here."""


def single_image_match(images: int, right: int) -> Match:
    """Match matrix of several images with one caption, which fits one of them."""
    return tuple((i == right,) for i in range(images))


def _spec_card(name: str, title: str, file: str, shape: str, family: str) -> Card:
    return Card(
        name=f"spec/{name}",
        title=f"SPEC, {title}: size, position, existence and count",
        paper="Peng et al., Synthesize, Diagnose, and Optimize: Towards Fine-Grained "
        "Vision-Language Understanding, CVPR 2024 (arXiv:2312.00081)",
        license="none stated",
        source="data.zip of the dataset wjpoom/SPEC on the Hugging Face hub; "
        "github.com/wjpoom/SPEC (code)",
        layout=f"{{{','.join(SPEC_SUBSETS)}}}/{file}, here or in data/:\n"
        "rows of query, keys and label; "
        "the images beside it, by the paths that it names",
        shape=shape,
        family=family,
        counts=SPEC_COUNTS,
        aggregation=Macro("subset"),
        chance={},
        tags={"subset": "what differs: one of six folders"},
        official_ties="right",
        official="argmax: a tie goes to the first candidate, whichever it is",
        errata="the files were not seen: their fields are those that the released script reads",
        download=Download(None, (HubFiles("wjpoom/SPEC", ("data.zip",), unpack="zip"),)),
    )


def _read_spec(
    file: str, build: Callable[[Record, Path], Example]
) -> Callable[[Path, Problems], Iterator[Example]]:
    def read(root: Path, problems: Problems) -> Iterator[Example]:
        require_folder(root)
        paths = [
            next(
                (
                    path
                    for folder in ("", "data")
                    if (path := root / folder / name / file).is_file()
                ),
                None,
            )
            for name in SPEC_SUBSETS
        ]
        if not any(paths):
            folders = ", ".join(SPEC_SUBSETS)
            raise InputError(f"holds {file} in none of the folders {folders}.", file=root)
        for path in filter(None, paths):

            def build_here(record: Record, path: Path = path) -> Example:
                return build(record, path.parent)

            yield from parse_records(read_json_records(path, problems), build_here, problems)

    return read


def _read_candidates(record: Record) -> tuple[list[str], int]:
    """Read the candidates of a row and the position of the right one."""
    keys = record.field("keys")
    if not isinstance(keys, list) or len(keys) < 2:
        raise MalformedError(f"record {record.key}: 'keys' must be a list of two or more.")
    names = [record.inner({"keys": key}).text("keys") for key in keys]
    label = record.integer("label")
    if not 0 <= label < len(names):
        raise MalformedError(
            f"record {record.key}: 'label' must be 0 to {len(names) - 1}, found {label}."
        )
    return names, label


def _build_image_to_text(record: Record, folder: Path) -> Example:
    texts, label = _read_candidates(record)
    name = record.text("query")
    return Example(
        f"{folder.name}/{record.key}",
        (ImageRef(f"{folder.name}/{name}", safe_join(folder, name)),),
        tuple(texts),
        single_match(len(texts), label),
        {"subset": folder.name},
    )


def _build_text_to_image(record: Record, folder: Path) -> Example:
    names, label = _read_candidates(record)
    return Example(
        f"{folder.name}/{record.key}",
        tuple(ImageRef(f"{folder.name}/{name}", safe_join(folder, name)) for name in names),
        (record.text("query"),),
        single_image_match(len(names), label),
        {"subset": folder.name},
    )


SPEC = Suite(
    "spec",
    "SPEC: size, position, existence and count, by generated images that differ in nothing else",
    {
        "image-to-text": Benchmark(
            _spec_card("image-to-text", "an image", "image2text.json", "1 × n", "choice"),
            _read_spec("image2text.json", _build_image_to_text),
        ),
        "text-to-image": Benchmark(
            _spec_card("text-to-image", "a caption", "text2image.json", "n × 1", "images"),
            _read_spec("text2image.json", _build_text_to_image),
        ),
    },
)

NEGATIVES = {"subj_neg": "subject", "verb_neg": "verb", "obj_neg": "object"}
"""Column → the part of the sentence that is wrong of the second image."""

SVO_PROBES = Card(
    name="svo-probes",
    title="SVO-Probes: a sentence, an image of it, and one of another subject, verb or object",
    paper="Hendricks and Nematzadeh, Probing Image-Language Transformers for Verb Understanding, "
    "Findings of ACL 2021 (arXiv:2106.09141)",
    license="annotations CC BY 4.0; images under their owners' terms",
    source="storage.googleapis.com/dm-mmt-models/svo_probes.csv, and the addresses of 14,102 "
    "images in github.com/google-deepmind/svo_probes (image_urls.txt)",
    layout="svo_probes.csv with sentence, pos_image_id, neg_image_id, subj_neg, verb_neg, obj_neg\n"
    "images/<image id>.jpg: the addresses are in the columns pos_url and neg_url",
    shape="2 × 1",
    family="probes",
    counts={},
    aggregation=Micro(),
    chance={"image": 1 / 2, "accuracy_true": 1 / 2, "accuracy_false": 1 / 2},
    tags={
        "subset": "what is wrong of the second image: subject, verb or object; several or nothing "
        "where the columns say so",
        "triplet": "subject, verb and object of the sentence",
    },
    match=((True,), (False,)),
    scores="svo-probes",
    official="judges every pair alone: balanced_accuracy is its average accuracy, of distinct "
    "pairs of sentence and image; rows with several changes count in none of its numbers",
    errata="images are named by addresses, many of which no longer answer. The file itself was "
    "not seen: its columns are those of its README and of the released notebook",
    download=Manual(
        "https://github.com/google-deepmind/svo_probes",
        "take svo_probes.csv from the address in its notebook, and fetch each image from pos_url "
        "and neg_url to images/<image id>.jpg",
    ),
)


def read_svo_probes(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the rows; ids are their positions."""

    def build(record: Record) -> Example:
        images = [str(record.integer(name)) for name in ("pos_image_id", "neg_image_id")]
        wrong = [word for column, word in NEGATIVES.items() if _read_flag(record, column)]
        tags: dict[str, TagValue] = {
            "subset": wrong[0] if len(wrong) == 1 else "several" if wrong else "nothing"
        }
        if record.value.get("pos_triplet"):
            tags["triplet"] = record.text("pos_triplet")
        return Example(
            record.key,
            tuple(
                ImageRef(name, find_image(root, f"{name}.jpg", "images", ".")) for name in images
            ),
            (record.text("sentence"),),
            ((True,), (False,)),
            tags,
        )

    path = find_file(root, "svo_probes.csv", "data/svo_probes.csv")
    yield from parse_records(read_csv_records(path, problems), build, problems)


def _read_flag(record: Record, name: str) -> bool:
    value = str(record.field(name)).strip().lower()
    if value not in ("true", "false", "1", "0"):
        raise MalformedError(f"record {record.key}: {name!r} must be True or False.")
    return value in ("true", "1")


SET_SIZE = 10
"""Images of a set of ImageCoDe."""

FRAME_NAME = re.compile(r"img(\d+)\.(?:jpg|jpeg|png)", re.IGNORECASE)
"""Name of an image of a set; the numbers of video frames have gaps."""

IMAGE_FOLDERS = ("image-sets", "images", "games", "data", ".")

IMAGECODE_COMMIT = "15b993f545c6e659d80afa133c313f2b377e89f5"

IMAGECODE = Card(
    name="imagecode",
    title="ImageCoDe: a description, and ten images that look almost the same",
    paper="Krojer et al., Image Retrieval from Contextual Descriptions, ACL 2022 "
    "(arXiv:2203.15867)",
    license="annotations MIT; images under the terms of MSR-VTT, Video Storytelling, YouCook and "
    "Open Images",
    source="github.com/McGill-NLP/imagecode (data/valid_data.json), which links to the images",
    layout="valid_data.json, here or in data/: {folder: {position: description}}\n"
    "image-sets/<folder>/img<number>.jpg, ten in each; a position counts them by their numbers",
    shape="10 × 1",
    family="images",
    counts={"imagecode": 2302},
    aggregation=Micro(),
    chance={"image": 1 / SET_SIZE},
    tags={
        "kind": "video: ten frames; static: ten photographs",
        "source": "MSR-VTT, Video Storytelling, YouCook or Open Images",
        "set": "folder of the ten images",
    },
    by=("kind", "source"),
    official="argmax over the ten images; the leaderboard's test set has secret answers",
    errata="the number in an image's name is that of a video frame and not the position that the "
    "annotations count by",
    download=Download(
        IMAGECODE_COMMIT,
        github_files(
            "McGill-NLP/imagecode",
            IMAGECODE_COMMIT,
            {
                "valid_data.json": (
                    "data/valid_data.json",
                    321098,
                    "cb4b8482354ba9bac62b6e101f145f9e59722dcf3b3fd42583f5b6de12bc698a",
                )
            },
        ),
        by_hand="unpack the image sets that github.com/McGill-NLP/imagecode links to into "
        "image-sets/",
    ),
)

SOURCES = {
    "open-images": "Open Images",
    "MSR-VTT": "MSR-VTT",
    "video-storytelling": "Video Storytelling",
    "YouCook": "YouCook",
}
"""Beginning of a folder's name → source of its images."""


def read_imagecode(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the descriptions; ids are folder and position."""

    def build(record: Record) -> list[Example]:
        descriptions = record.value
        if not isinstance(descriptions, dict) or not descriptions:
            raise MalformedError(f"record {record.key}: expected {{position: description}}.")
        images = _list_set(root, record.key)
        kind = "static" if record.key.startswith("open-images") else "video"
        source = next((SOURCES[name] for name in SOURCES if record.key.startswith(name)), "other")
        return [
            Example(
                f"{record.key}/{position}",
                images,
                (record.text(position),),
                single_image_match(SET_SIZE, _read_position(record, position)),
                {"kind": kind, "source": source, "set": record.key},
            )
            for position in descriptions
        ]

    path = find_file(root, "valid_data.json", "data/valid_data.json")
    for examples in parse_records(read_json_records(path, problems), build, problems):
        yield from examples


def _read_position(record: Record, position: str) -> int:
    if position not in map(str, range(SET_SIZE)):
        raise MalformedError(
            f"record {record.key}: the position {position!r} is not one of 0 to {SET_SIZE - 1}."
        )
    return int(position)


def _list_set(root: Path, name: str) -> tuple[ImageRef, ...]:
    """List the ten images of a set by their numbers; those of a missing folder by position.

    Raises:
        MalformedError: the folder has another number of images.
    """
    folders = [safe_join(root / above, name) for above in IMAGE_FOLDERS]
    try:
        folder = next((path for path in folders if path.is_dir()), None)
    except OSError:
        raise MalformedError(f"record {name[:40]}…: is no name of a folder.") from None
    if folder is None:
        files = [f"img{i}.jpg" for i in range(SET_SIZE)]
        folder = folders[0]
    else:
        numbers = {file.name: FRAME_NAME.fullmatch(file.name) for file in folder.iterdir()}
        ranked = sorted((int(hit[1]), file) for file, hit in numbers.items() if hit)
        files = [file for _, file in ranked]
        if len(files) != SET_SIZE:
            raise MalformedError(
                f"record {name}: its folder holds {len(files)} images img<number>.jpg, not "
                f"{SET_SIZE}."
            )
    return tuple(ImageRef(f"{name}/{file}", folder / file) for file in files)


BENCHMARKS: dict[str, Benchmark | Suite] = {
    "spec": SPEC,
    "svo-probes": Benchmark(SVO_PROBES, read_svo_probes),
    "imagecode": Benchmark(IMAGECODE, read_imagecode),
}
