"""POPE and HallusionBench: questions about an image that are answered with yes or no."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro, Suite
from contrapose.data.downloads import Download, coco_images, github_files
from contrapose.data.examples import Example, TagValue
from contrapose.data.images import ImageRef
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    read_jsonl_records,
)

if TYPE_CHECKING:
    from PIL.Image import Image

QUESTION = "{} Please answer yes or no."
"""What `vqa` asks: the benchmark's own question."""

POLLS = {
    "random": ("any thing", 431089),
    "popular": ("a frequent thing", 430172),
    "adversarial": ("a thing that often comes with those that are there", 430668),
}
"""Setting → which things the questions with the answer no are about, and the file's bytes."""

POLL_COMMIT = "7ef3026faa9a89ed11fd508385fad652fdc6349f"


def _poll_card(name: str) -> Card:
    words, size = POLLS[name]
    file = f"coco_pope_{name}.json"
    return Card(
        name=f"pope/{name}",
        title=f"POPE, {name}: is there {words} in the photograph?",
        paper="Li et al., Evaluating Object Hallucination in Large Vision-Language Models, EMNLP "
        "2023 (arXiv:2305.10355)",
        license="annotations MIT; images COCO 2014 (Flickr terms)",
        source="github.com/RUCAIBox/POPE (output/coco/) and COCO val2014",
        layout=f"{file}, here or in output/coco/ or coco/\nval2014/*.jpg",
        shape="1 × 1",
        family="judgement",
        counts={name: 3000},
        aggregation=Micro(),
        chance={"accuracy": 1 / 2},
        by=(),
        scores="pope",
        official="a reply whose first sentence has the word no or not says no, and any other says "
        "yes; here a reply without yes, no and not is wrong",
        errata="an older copy of the setting random, which many programs use, has 2,910 questions "
        "and not 3,000; question ids begin at 0 in one release and at 1 in another, so that rows "
        "count by their position here. Only the first rows of the files were seen",
        question=QUESTION,
        download=Download(
            POLL_COMMIT,
            github_files(
                "AoiDragon/POPE", POLL_COMMIT, {file: (f"output/coco/{file}", size, None)}
            ),
            (coco_images("val2014", "val2014", count=500),),
        ),
    )


def _read_poll(name: str) -> Callable[[Path, Problems], Iterator[Example]]:
    file = f"coco_pope_{name}.json"

    def read(root: Path, problems: Problems) -> Iterator[Example]:
        """Read the questions of a setting; ids are their positions in the file."""
        path = find_file(root, file, f"output/coco/{file}", f"coco/{file}")

        def build(record: Record) -> Example:
            label = record.text("label").strip().lower()
            if label not in ("yes", "no"):
                raise MalformedError(f"record {record.key}: 'label' must be yes or no.")
            name = record.text("image")
            folders = ("val2014", "coco/val2014", "images", "images/val2014")
            image = ImageRef(name, find_image(root, name, *folders))
            return Example(record.key, (image,), (record.text("text"),), ((label == "yes",),))

        yield from parse_records(read_jsonl_records(path, problems), build, problems)

    return read


@dataclass(frozen=True, slots=True)
class BlankImage:
    """Image source: a gray square, for a question that is asked without an image."""

    side: int = 224

    @property
    def content(self) -> str:
        """Content name: its side."""
        return f"gray {self.side}"

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Make gray squares."""
        from PIL import Image

        gray = (128, 128, 128)
        return [Image.new("RGB", (source.side, source.side), gray) for source in sources]


ILLUSION_COMMIT = "89db6019670011199df6f002bca389f7b592e129"

CARD = Card(
    name="hallusionbench",
    title="HallusionBench: does the model look at the figure, or at what it knows?",
    paper="Guan et al., HallusionBench: An Advanced Diagnostic Suite for Entangled Language "
    "Hallucination and Visual Illusion in Large Vision-Language Models, CVPR 2024 "
    "(arXiv:2310.14566)",
    license="BSD-3-Clause",
    source="github.com/tianyi-lab/HallusionBench (HallusionBench.json), which links to the figures "
    "(hallusion_bench.zip on Google Drive)",
    layout="HallusionBench.json\nhallusion_bench/{VD,VS}/<subcategory>/<set>_<figure>.png",
    shape="1 × 1",
    family="question_groups",
    counts={"hallusionbench": 1129},
    aggregation=Micro(),
    chance={"accuracy": 1 / 2},
    tags={
        "category": "VD: the figure is needed; VS: it adds to what is known",
        "subcategory": "illusion, math, chart, map, …",
        "visual_input": "0 without a figure, 1 with the original, 2 with an edited one",
        "figure": "questions about one figure, which count together; empty without one",
        "question": "the same question about several figures, which count together",
    },
    by=("category", "subcategory"),
    scores="hallusionbench",
    official="aAcc, fAcc and qAcc are accuracy, figure and question; replies are graded by GPT-4, "
    "and not knowing is right where a VS question is asked without its figure. Here a reply is "
    "read by its first yes or no, and a reply with neither is wrong",
    errata="the page counts 254 questions on 69 figures, the file 1,129. Questions without a "
    "figure are asked about a gray square, since models need an image; programs that "
    "leave them out have 951 questions, and other numbers than the paper. Only the beginning of "
    "the file, and the released script, were seen",
    question=QUESTION,
    download=Download(
        ILLUSION_COMMIT,
        github_files(
            "tianyi-lab/HallusionBench",
            ILLUSION_COMMIT,
            {"HallusionBench.json": ("HallusionBench.json", 432308, None)},
        ),
        by_hand="the figures: hallusion_bench.zip by the link on "
        "https://github.com/tianyi-lab/HallusionBench, unpacked here",
    ),
)

KEYS = ("category", "subcategory", "set_id", "figure_id", "question_id")
"""Fields that name a question, in the order in which its id joins them."""


def question_names(record: Record) -> tuple[str, dict[str, TagValue]]:
    """Id of a question, and its tags: the groups in which it counts.

    Raises:
        MalformedError: a field is missing, or no such category.
    """
    category, subcategory, group, figure, question = (record.name(key).strip() for key in KEYS)
    if category not in ("VD", "VS"):
        raise MalformedError(f"record {record.key}: 'category' must be VD or VS.")
    shown = record.name("visual_input").strip()
    if shown not in ("0", "1", "2"):
        raise MalformedError(f"record {record.key}: 'visual_input' must be 0, 1 or 2.")
    without = category == "VS" and figure == "0"
    tags: dict[str, TagValue] = {
        "category": category,
        "subcategory": subcategory,
        "visual_input": shown,
        "figure": "" if without else "_".join((category, subcategory, group, figure)),
        "question": "_".join((category, subcategory, group, question)),
    }
    return "_".join((category, subcategory, group, figure, question)), tags


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the questions; ids join category, subcategory, set, figure and question."""
    path = find_file(root, "HallusionBench.json", "data/HallusionBench.json")
    known: set[str] = set()

    def build(record: Record) -> Example:
        name, tags = question_names(record)
        answer = record.name("gt_answer").strip()
        if answer not in ("0", "1"):
            raise MalformedError(f"record {record.key}: 'gt_answer' must be 0 or 1.")
        text = record.text("question").strip()
        # Questions without a figure share no photograph: only those of one set are a cluster.
        image = ImageRef(f"{tags['question']} without figure", source=BlankImage())
        if tags["visual_input"] != "0":
            category, subcategory, group, figure, _ = (record.name(key).strip() for key in KEYS)
            file = f"{category}/{subcategory}/{group}_{figure}.png"
            image = ImageRef(file, find_image(root, file, "hallusion_bench", ".", "images"))
        example = Example(name, (image,), (text,), ((answer == "1",),), tags)
        if name in known:
            raise MalformedError(f"record {record.key}: the question {name} comes twice.")
        known.add(name)
        return example

    yield from parse_records(read_json_records(path, problems), build, problems)


BENCHMARKS: dict[str, Benchmark | Suite] = {
    "pope": Suite(
        "pope",
        "POPE: is there such a thing in the photograph? Three settings",
        {name: Benchmark(_poll_card(name), _read_poll(name)) for name in POLLS},
    ),
    "hallusionbench": Benchmark(CARD, read),
}
