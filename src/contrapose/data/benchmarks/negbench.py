"""NegBench: multiple choice and retrieval with negation, in images and videos."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro, Suite
from contrapose.data.downloads import Manual
from contrapose.data.examples import Example, Gallery, single_match
from contrapose.data.images import ImageRef
from contrapose.data.video_clips import VideoRef
from contrapose.errors import InputError
from contrapose.files import MalformedError, Problems, Record, parse_records, read_csv_records

PAPER = (
    "Alhamoud et al., Vision-Language Models Do Not Understand Negation, CVPR 2025 "
    "(arXiv:2501.09425)"
)
SOURCE = "the links in github.com/m1k2zoo/negbench (datasets.md)"
ERRATA = (
    "the released tables changed in March 2025, when a missing normalization of vectors was put "
    "right: numbers quoted from before are of unnormalized vectors. Some captions hold words of "
    "the language model that rephrased them, such as “(this caption was fine …)”. Of the tables of "
    "COCO's and HardNeg-Syn's questions, of the videos and of negated retrieval the first rows "
    "were seen; the columns of the others are those that the released script reads. The numbers of "
    "COCO's and VOC's questions are those of the released table of results"
)
FRAMES = "The released code reads 4 frames of a video"
TEMPLATES = ("positive", "negative", "hybrid")
"""Kinds of captions: what is there, what is not, and both."""

DOWNLOAD = Manual(
    "https://drive.google.com/drive/folders/1kSEq0mkV1t1T8GuOAM65iz_iAA7e5gxB",
    "download the tables into images/, and the images of COCO val2017, VOC 2007 (test), CheXpert "
    f"and the generated ones by {SOURCE}",
)

CHOICE = Card(
    name="negbench/coco-mcq",
    title="NegBench, COCO: which of four captions with and without negation fits?",
    paper=PAPER,
    license="MIT; images COCO 2017 (Flickr terms)",
    source=SOURCE,
    layout="images/COCO_val_mcq_llama3.1_rephrased.csv, here or in data/\nval2017/*.jpg",
    shape="1 × 4",
    family="choice",
    counts={"coco-mcq": 5914},
    aggregation=Micro(),
    chance={"accuracy": 1 / 4},
    tags={"template": "kind of the right caption: positive, negative or hybrid"},
    by=("template",),
    match=single_match(4, 0),
    official_ties="right",
    official="argmax: a tie goes to the right caption, which stands first: a constant scorer gets "
    "100 %",
    errata=ERRATA,
    option_kinds=("", "hybrid", "positive", "negative"),
    download=DOWNLOAD,
)

VOC = replace(
    CHOICE,
    name="negbench/voc-mcq",
    title="NegBench, VOC 2007: which of four captions with and without negation fits?",
    license="MIT; images Pascal VOC 2007 (Flickr terms)",
    layout="images/VOC2007_mcq_llama3.1_rephrased.csv, here or in data/\n"
    "VOCdevkit/VOC2007/JPEGImages/*.jpg",
    counts={"voc-mcq": 5031},
)

GENERATED = replace(
    CHOICE,
    name="negbench/syn-mcq",
    title="NegBench, HardNeg-Syn: which of four captions fits a generated image?",
    license="MIT",
    layout="images/synthetic_mcq_llama3.1_rephrased.csv, here or in data/\n"
    "synthetic_visual_negation/data/{positive,negative}/*.png",
    counts={},
    match=None,
    official_ties="wrong",
    official="argmax: a tie goes to the caption that stands first, right or wrong",
    option_kinds=("positive", "hybrid", "hybrid", "negative"),
)

VIDEO = replace(
    CHOICE,
    name="negbench/msrvtt-mcq",
    title="NegBench, MSR-VTT: which of four captions with and without negation fits a video?",
    license="MIT; videos under the terms of MSR-VTT",
    layout="videos/msr_vtt_mcq_rephrased_llama.csv, here or in data/\nvideos/*.mp4",
    counts={},
    match=None,
    official=f"{CHOICE.official}. {FRAMES}",
)

CHEXPERT = replace(
    CHOICE,
    name="negbench/chexpert",
    title="NegBench, CheXpert: is the finding there, or not?",
    license="MIT; images under the Stanford University CheXpert terms",
    layout="images/chexpert_binary_mcq.csv, here or in data/\nimages as its column image_path says",
    shape="1 × 2",
    counts={},
    chance={"accuracy": 1 / 2},
    tags={},
    by=(),
    match=None,
    official_ties="wrong",
    official="argmax: a tie goes to the caption that stands first, right or wrong",
    option_kinds=(),
)

CONTROL = replace(
    CHEXPERT,
    name="negbench/chexpert-control",
    title="NegBench, CheXpert without negation: which finding is there?",
    layout="images/chexpert_binary_mcq_control.csv, here or in data/\n"
    "images as its column image_path says",
)

RETRIEVAL = Card(
    name="negbench/coco-retrieval",
    title="NegBench, COCO: find the photograph of a caption",
    paper=PAPER,
    license="MIT; captions COCO (CC BY 4.0); images COCO 2017 (Flickr terms)",
    source=SOURCE,
    layout="images/COCO_val_retrieval.csv, here or in data/\nval2017/*.jpg",
    shape="5,000 × 25,000",
    family="retrieval",
    counts={},
    aggregation=Micro(),
    chance={},
    by=(),
    official="R@1 and R@5 of captions that find their image (text_to_image_r1, text_to_image_r5)",
    errata=ERRATA,
    download=DOWNLOAD,
)

NEGATED = replace(
    RETRIEVAL,
    name="negbench/coco-negated-retrieval",
    title="NegBench, COCO: find the photograph of a caption that also says what is not there",
    layout="images/COCO_val_negated_retrieval_llama3.1_rephrased_affneg_true.csv, here or in "
    "data/\nval2017/*.jpg",
)

GENERATED_RETRIEVAL = replace(
    RETRIEVAL,
    name="negbench/syn-retrieval",
    title="NegBench, HardNeg-Syn: find the generated image of a caption",
    license="MIT",
    layout="images/synthetic_retrieval_v1.csv, here or in data/\n"
    "synthetic_visual_negation/data/{positive,negative}/*.png",
    shape="N × M",
)

GENERATED_NEGATED = replace(
    GENERATED_RETRIEVAL,
    name="negbench/syn-negated-retrieval",
    title="NegBench, HardNeg-Syn: find the generated image of a caption with negation",
    layout="images/synthetic_retrieval_v2.csv, here or in data/\n"
    "synthetic_visual_negation/data/{positive,negative}/*.png",
)

VIDEO_RETRIEVAL = replace(
    RETRIEVAL,
    name="negbench/msrvtt-retrieval",
    title="NegBench, MSR-VTT: find the video of a caption",
    license=VIDEO.license,
    layout="videos/msr_vtt_retrieval.csv, here or in data/\nvideos/*.mp4",
    shape="N × M",
    official=f"{RETRIEVAL.official}. {FRAMES}",
)

VIDEO_NEGATED = replace(
    VIDEO_RETRIEVAL,
    name="negbench/msrvtt-negated-retrieval",
    title="NegBench, MSR-VTT: find the video of a caption that also says what is not there",
    layout="videos/msr_vtt_retrieval_rephrased_llama.csv, here or in data/\nvideos/*.mp4",
)

FOLDERS = (
    "val2017",
    "coco/images/val2017",
    "coco/val2017",
    "VOCdevkit/VOC2007/JPEGImages",
    "JPEGImages",
    "synthetic_visual_negation/data",
    ".",
    "images",
    "data",
)
VIDEO_FOLDERS = ("videos", "data/videos", "MSRVTT/videos/all", "msrvtt/videos", ".")
"""Where images and videos lie; their names in the tables are paths of the authors' machines."""


def _table(root: Path, card: Card) -> Path:
    """Path of the table that the card's layout names."""
    name = card.layout.partition(",")[0]
    return find_file(root, name, f"data/{name}", name.rpartition("/")[2])


def _locate(record: Record, root: Path, path: str, card: Card) -> ImageRef:
    """Find an image by the end of its path: its name, and the folder that tells images apart."""
    plain = path.replace("\\", "/")
    ends = plain.rsplit("/", 2 if "/syn-" in card.name else 1)
    if "/chexpert" in card.name:
        name = plain.removeprefix("./")
    else:
        name = "/".join(ends[1:]) if len(ends) > 1 else plain
    if not name.strip("/"):
        raise MalformedError(f"record {record.key}: {path!r} names no image.")
    if "/msrvtt-" in card.name:
        return VideoRef(find_image(root, name, *VIDEO_FOLDERS), key=name)
    return ImageRef(name, find_image(root, name, *FOLDERS))


def _read_choices(card: Card) -> Callable[[Path, Problems], Iterator[Example]]:
    count = int(card.shape.split()[-1])

    def read(root: Path, problems: Problems) -> Iterator[Example]:
        """Read the questions; ids are their positions in the table."""

        def build(record: Record) -> Example:
            right = record.integer("correct_answer")
            if not 0 <= right < count:
                raise MalformedError(
                    f"record {record.key}: 'correct_answer' must be 0 to {count - 1}."
                )
            if card.match is not None and right != 0:
                raise MalformedError(
                    f"record {record.key}: the right caption must stand first, as in the release."
                )
            texts = tuple(record.text(f"caption_{i}") for i in range(count))
            tags = {}
            if card.tags:
                tags["template"] = record.text("correct_answer_template")
                if tags["template"] not in TEMPLATES:
                    raise MalformedError(
                        f"record {record.key}: {tags['template']!r} is no kind of caption."
                    )
            image = _locate(record, root, record.text("image_path"), card)
            return Example(record.key, (image,), texts, single_match(count, right), tags)

        yield from parse_records(read_csv_records(_table(root, card), problems), build, problems)

    return read


def _read_gallery(card: Card) -> Callable[[Path, Problems], Gallery]:
    def read(root: Path, problems: Problems) -> Gallery:
        """Read the gallery: every image with its captions."""

        def build(record: Record) -> tuple[ImageRef, list[str]]:
            image = _locate(record, root, record.text("filepath"), card)
            return image, _parse_captions(record)

        path = _table(root, card)
        positions: dict[str, int] = {}
        images: list[ImageRef] = []
        texts: list[str] = []
        pairs: list[tuple[int, int]] = []
        for image, captions in parse_records(read_csv_records(path, problems), build, problems):
            position = positions.setdefault(image.key, len(images))
            if position == len(images):
                images.append(image)
            pairs += [(position, len(texts) + i) for i in range(len(captions))]
            texts += captions
        if not images:
            raise InputError("holds no image with captions.", file=path)
        return Gallery(card.name, tuple(images), tuple(texts), tuple(pairs))

    return read


def _parse_captions(record: Record) -> list[str]:
    """Parse the captions of an image, which the tables hold as a Python list of texts."""
    try:
        captions = ast.literal_eval(record.text("captions").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        captions = None
    if not isinstance(captions, list) or not captions:
        raise MalformedError(f"record {record.key}: 'captions' must be a list of texts.")
    return [record.inner({"captions": text}).text("captions") for text in captions]


CHOICES = (CHOICE, VOC, GENERATED, VIDEO, CHEXPERT, CONTROL)
GALLERIES = (
    *(RETRIEVAL, NEGATED, GENERATED_RETRIEVAL, GENERATED_NEGATED),
    *(VIDEO_RETRIEVAL, VIDEO_NEGATED),
)

BENCHMARK = Suite(
    "negbench",
    "NegBench: multiple choice and retrieval with negation",
    {
        **{card.name.partition("/")[2]: Benchmark(card, _read_choices(card)) for card in CHOICES},
        **{card.name.partition("/")[2]: Benchmark(card, _read_gallery(card)) for card in GALLERIES},
    },
)
