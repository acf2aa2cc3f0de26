"""Human ratings of generated images: TIFA160, DSG's ratings of it, SeeTRUE, GenAI-Bench.

An example is one image and its prompt. Its rating, the mean over people, is the tag `rating`, their
number the tag `raters`; SeeTRUE has labels of 0 and 1 instead, which are the match.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, Manual, github_files
from contrapose.data.examples import RATING, Example, TagValue
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_csv_records,
    read_json,
    read_json_records,
)

FIT = ((True,),)
"""Match of an image and the prompt that it was made for."""

TAGS = {
    RATING: "mean of the people's ratings",
    "raters": "how many people rated",
    "prompt": "the prompt, whose images are drawn together",
    "generator": "the model that made the image",
}

TIFA_SHA256 = "1720bb802c3c0821dd56df0d8c20a1214ff5085d7e5d9236a75736b1d39b7b3c"
TIFA_PATH = "human_annotations/human_annotations_with_scores.json"
TIFA_COMMIT = "d20b20066a593183f3436ce5cbff33982bb8d02f"
TIFA_FILE = github_files(
    "Yushi-Hu/tifa", TIFA_COMMIT, {TIFA_PATH: (TIFA_PATH, 553467, TIFA_SHA256)}
)
IMAGES_BY_HAND = "the images, by the link in the README of github.com/Yushi-Hu/tifa, in images/"

TIFA = Card(
    name="tifa160",
    title="TIFA160: 800 generated images, rated by people for faithfulness to the prompt",
    paper="Hu et al., TIFA: Accurate and Interpretable Text-to-Image Faithfulness Evaluation with "
    "Question Answering, ICCV 2023 (arXiv:2303.11897)",
    license="annotations Apache-2.0; images by five generators",
    source="github.com/Yushi-Hu/tifa (human_annotations/human_annotations_with_scores.json, with "
    "the scores of ten metrics); images by the link in its README",
    layout="human_annotations_with_scores.json or tifa160.json, or under human_annotations/\n"
    "images/<prompt>_<generator>.jpg",
    shape="1 × 1",
    family="ratings",
    counts={"tifa160": 800},
    aggregation=Micro(),
    chance={"kendall": 0.0, "spearman": 0.0, "pearson": 0.0},
    tags={**TAGS, "source": "where the prompt comes from: coco, partiprompt, …"},
    by=("source",),
    scores="ratings",
    official="ties of pairwise accuracy are calibrated on the same pairs",
    errata="the paper's “Spearman” is Pearson's correlation: the released notebook calls "
    "np.corrcoef on the scores themselves. Two people rated each image",
    download=Download(TIFA_COMMIT, TIFA_FILE, by_hand=IMAGES_BY_HAND),
)

DSG_SHA256 = "61c9ff41b9f9fc26a44bbaf5540caeb67c09a9e3039536567f3e45d40ad0e9f8"
DSG_COMMIT = "2fdce11f8028433fae16e497eac7277d05208cac"
DSG = replace(
    TIFA,
    name="dsg-tifa160",
    title="DSG's ratings of TIFA160: the same 800 images, five people each",
    paper="Cho et al., Davidsonian Scene Graph, ICLR 2024 (arXiv:2310.18235)",
    source="github.com/j-min/DSG (dsg/data/tifa160-likert-anns.csv); prompts and images of TIFA160",
    layout="tifa160-likert-anns.csv or dsg-tifa160-likert-anns.csv, or under dsg/data/\n"
    "tifa160.json or dsg-1k-anns.csv, for the prompts\nimages/<prompt>_<generator>.jpg",
    counts={"dsg-tifa160": 800},
    errata="four of 800 images have fewer than five ratings. DSG-1k itself is a list of questions "
    "without ratings, and is not read",
    download=Download(
        DSG_COMMIT,
        (
            *github_files(
                "j-min/DSG",
                DSG_COMMIT,
                {
                    "tifa160-likert-anns.csv": (
                        "dsg/data/tifa160-likert-anns.csv",
                        441992,
                        DSG_SHA256,
                    )
                },
            ),
            *TIFA_FILE,
        ),
        by_hand=IMAGES_BY_HAND,
    ),
)

SEETRUE_SHA256 = "175c78dffe54724259ed8466f9e71fbda8aaa4f479b99a3a3530a2c89f763fd0"
SEETRUE_COMMIT = "60ce07b144b9bff24b8dac5317cb28586b1b2509"
SEETRUE = Card(
    name="seetrue",
    title="SeeTRUE: does the text describe the image? 6,930 labels from three sources",
    paper="Yarom et al., What You See is What You Read?, NeurIPS 2023 (arXiv:2305.10400)",
    license="CC BY 4.0, for research, and as a test set only",
    source="huggingface.co/datasets/yonatanbitton/SeeTRUE (SeeTRUE.csv, images.zip; gated), table "
    "also in github.com/linzhiqiu/t2v_metrics (datasets/)",
    layout="SeeTRUE.csv, or the same under datasets/\nimages/*.png",
    shape="1 × 1",
    family="judgement",
    counts={"editbench": 3827, "coco_t2i": 1791, "drawbench": 1312},
    aggregation=Micro(),
    chance={"accuracy": 1 / 2, "auroc": 1 / 2},
    tags={"subset": "source of the pair", "prompt": "the text, whose pairs are drawn together"},
    scores="judgement",
    official="the AUROC of each source is the figure of the paper; see the parts",
    errata="original_dataset_id is not unique: examples are numbered by row, from 0",
    download=Download(
        SEETRUE_COMMIT,
        github_files(
            "linzhiqiu/t2v_metrics",
            SEETRUE_COMMIT,
            {"SeeTRUE.csv": ("datasets/SeeTRUE.csv", 781942, SEETRUE_SHA256)},
        ),
        by_hand="the images: images.zip of the gated dataset yonatanbitton/SeeTRUE on the hub, "
        "unpacked in images/",
    ),
)

GENERATORS = (
    "DALLE_3",
    "SDXL_Turbo",
    "DeepFloyd_I_XL_v1",
    "Midjourney_6",
    "SDXL_2_1",
    "SDXL_Base",
)
"""Generators in the order of the released code, which is that of its score arrays."""

GENAI = replace(
    TIFA,
    name="genai-bench",
    title="GenAI-Bench: images of six generators, rated by three people for alignment",
    paper="Li et al., GenAI-Bench, 2024 (arXiv:2406.13743); Lin et al., Evaluating Text-to-Visual "
    "Generation with Image-to-Text Generation, ECCV 2024 (arXiv:2404.01291)",
    license="see the page of the dataset; code Apache-2.0",
    source="huggingface.co/datasets/zhiqiulin/GenAI-Bench-527 (genai_image.json, "
    "genai_skills.json, a zip for each generator)",
    layout="genai_image.json\ngenai_skills.json (may be missing)\n<generator>/<prompt>.jpeg",
    counts={"genai-bench": 3162},
    other_counts={"the release of 1,600 prompts": 9600},
    tags={**TAGS, "skill": "skills that the prompt asks for: counting, negation, …"},
    by=("skill",),
    errata="the file itself was not seen: the reader is built from the released code "
    "(github.com/linzhiqiu/t2v_metrics, dataset.py)",
    download=Manual(
        "huggingface.co/datasets/zhiqiulin/GenAI-Bench-527",
        "download genai_image.json, genai_skills.json and a zip for each generator, and unpack "
        "the zips side by side",
    ),
)


def read_rating_tags(record: Record) -> dict[str, TagValue]:
    """Read the tags of a row that holds ratings: rating, raters, prompt, generator, source.

    The rating is the mean of `human_scores` or `ratings`, or `human_avg` or `rating`.

    Raises:
        MalformedError: there is no rating, or it is not made of finite numbers.
    """
    several = next((name for name in ("human_scores", "ratings") if name in _fields(record)), None)
    single = next((name for name in ("human_avg", RATING) if name in _fields(record)), None)
    if several is not None and record.value[several] not in (None, ""):
        tags = mean_rating(record, record.value[several], several)
        if single is not None and not math.isclose(
            record.number(single), float(str(tags[RATING])), rel_tol=1e-6
        ):
            raise MalformedError(f"record {record.key}: {single!r} is not the mean of {several!r}.")
    elif single is not None:
        tags = {RATING: repr(record.number(single))}
    else:
        raise MalformedError(f"record {record.key}: there is no rating.")
    prompt = next((name for name in ("text_id", "prompt", "text") if name in record.value), None)
    if prompt is not None:
        tags["prompt"] = record.name(prompt)
    for name in ("raters", "generator", "source"):
        if record.value.get(name) not in (None, ""):
            tags[name] = record.name(name)
    if prompt == "text_id":
        tags |= _name_parts(record.key, str(tags["prompt"]))
    return tags


def mean_rating(record: Record, values: object, name: str) -> dict[str, TagValue]:
    """Tags of several people's ratings: their mean, and how many there are.

    Raises:
        MalformedError: they are no list of finite numbers.
    """
    if not isinstance(values, list) or not values:
        raise MalformedError(f"record {record.key}: {name!r} must be a list of ratings.")
    numbers = [record.inner({name: value}).number(name) for value in values]
    return {RATING: repr(math.fsum(numbers) / len(numbers)), "raters": str(len(numbers))}


def _fields(record: Record) -> Mapping[str, object]:
    if not isinstance(record.value, dict):
        record.field(RATING)  # says what is wrong
    fields: Mapping[str, object] = record.value
    return fields


def _name_parts(name: str, prompt: str) -> dict[str, TagValue]:
    """Generator and source in the names `<source>_<number>_<generator>` of TIFA160."""
    tags: dict[str, TagValue] = {}
    if name.startswith(f"{prompt}_") and len(name) > len(prompt) + 1:
        tags["generator"] = name[len(prompt) + 1 :]
    if prompt.rpartition("_")[0]:
        tags["source"] = prompt.rpartition("_")[0]
    return tags


FOLDERS = ("images", "annotated_images", "tifa160", ".")
TIFA_FILES = (
    "human_annotations_with_scores.json",
    "tifa160.json",
    "human_annotations.json",
    "human_annotations/human_annotations_with_scores.json",
    "human_annotations/human_annotations.json",
    "datasets/tifa160.json",
)


def read_tifa(root: Path, problems: Problems) -> Iterator[Example]:
    """Read TIFA160; ids are the keys of the file, `<prompt>_<generator>`."""
    path = find_file(root, *TIFA_FILES)

    def build(record: Record) -> Example:
        name = record.text("image_path")
        image = ImageRef(name, find_image(root, name, *FOLDERS))
        tags = read_rating_tags(record)
        return Example(record.key, (image,), (record.text("text"),), FIT, tags)

    yield from parse_records(read_json_records(path, problems), build, problems)


DSG_FILES = (
    "tifa160-likert-anns.csv",
    "dsg-tifa160-likert-anns.csv",
    "dsg/data/tifa160-likert-anns.csv",
)
DSG_GENERATORS = {
    "mini-dalle": "mini_dalle",
    "vq-diffusion": "vq_diffusion",
    "sd1dot1": "stable_diffusion_v1_1",
    "sd1dot5": "stable_diffusion_v1_5",
    "sd2dot1": "stable_diffusion_v2_1",
}
"""DSG's names of generators and TIFA's, by which images are named."""


@dataclass(slots=True)
class _RatedImage:
    """Image of DSG's table with the ratings of all its rows."""

    prompt: str
    generator: str
    first: Record
    answers: list[float] = field(default_factory=list)


def read_dsg(root: Path, problems: Problems) -> Iterator[Example]:
    """Read DSG's ratings, a row for each person; ids are those of TIFA160."""
    path = find_file(root, *DSG_FILES)
    texts = _read_prompts(root, problems)
    images: dict[str, _RatedImage] = {}

    def add(record: Record) -> None:
        prompt, model = record.text("source_id"), record.text("t2i_model")
        if model not in DSG_GENERATORS:
            raise MalformedError(f"record {record.key}: {model!r} is no generator of TIFA160.")
        name = f"{prompt}_{DSG_GENERATORS[model]}"
        answer = record.number("answer")
        image = images.setdefault(name, _RatedImage(prompt, DSG_GENERATORS[model], record))
        image.answers.append(answer)

    for _ in parse_records(read_csv_records(path, problems), add, problems):
        pass
    for name, image in images.items():
        item = str(image.first.value.get("item_id", ""))
        text = texts.get(image.prompt) or texts.get(item)
        try:
            if text is None:
                raise MalformedError(f"the prompt {image.prompt!r} is in no file of prompts.")
            file = f"{name}.jpg"
            ref = ImageRef(file, find_image(root, file, *FOLDERS))
            tags = mean_rating(image.first, image.answers, "answer") | {"prompt": image.prompt}
            yield Example(name, (ref,), (text,), FIT, tags | _name_parts(name, image.prompt))
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), path, image.first.line))


def _read_prompts(root: Path, problems: Problems) -> dict[str, str]:
    """Prompts by TIFA's or DSG's id, from TIFA's ratings or DSG's questions."""
    path = find_file(root, *TIFA_FILES, "dsg-1k-anns.csv", "dsg/data/dsg-1k-anns.csv")
    column = "item_id" if path.suffix == ".csv" else "text_id"
    records = (read_csv_records if path.suffix == ".csv" else read_json_records)(path, problems)

    def build(record: Record) -> tuple[str, str]:
        return record.text(column), record.text("text")

    return dict(parse_records(records, build, problems))


def read_seetrue(root: Path, problems: Problems) -> Iterator[Example]:
    """Read SeeTRUE; ids are the positions of the rows."""
    path = find_file(root, "SeeTRUE.csv", "datasets/SeeTRUE.csv")

    def build(record: Record) -> Example:
        label = str(record.field("label")).strip()
        if label not in ("0", "1"):
            raise MalformedError(f"record {record.key}: 'label' must be 0 or 1.")
        name, text = record.text("image"), record.text("text")
        image = ImageRef(name, find_image(root, name, "images", "."))
        tags: dict[str, TagValue] = {"subset": record.text("dataset_source"), "prompt": text}
        return Example(record.key, (image,), (text,), ((label == "1",),), tags)

    yield from parse_records(read_csv_records(path, problems), build, problems)


def read_genai(root: Path, problems: Problems) -> Iterator[Example]:
    """Read GenAI-Bench, generator by generator; ids are `<generator>/<prompt>`."""
    path = find_file(root, "genai_image.json")
    skills = _read_skills(root / "genai_skills.json")
    by_generator: dict[str, list[Example]] = {name: [] for name in GENERATORS}

    def build(record: Record) -> list[Example]:
        models = record.field("models")
        if not isinstance(models, dict) or not models:
            raise MalformedError(f"record {record.key}: 'models' must map generators to ratings.")
        text = record.text("prompt")
        examples = []
        for name, ratings in models.items():
            file = f"{name}/{record.key}.jpeg"
            tags = mean_rating(record, ratings, name)
            tags |= {"prompt": record.key, "generator": name}
            if skills.get(record.key):
                tags["skill"] = skills[record.key]
            ref = ImageRef(file, find_image(root, file, "."))
            examples.append(Example(f"{name}/{record.key}", (ref,), (text,), FIT, tags))
        return examples

    for examples in parse_records(read_json_records(path, problems), build, problems):
        for example in examples:
            by_generator.setdefault(str(example.tags["generator"]), []).append(example)
    for examples in by_generator.values():
        yield from examples


def _read_skills(path: Path) -> dict[str, tuple[str, ...]]:
    """Skills of each prompt; none where the file is missing.

    Raises:
        InputError: the file does not map skills to lists of prompts.
    """
    if not path.is_file():
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError("must map skills to lists of prompts.", file=path)
    skills: dict[str, list[str]] = {}
    for skill, prompts in content.items():
        if not isinstance(prompts, list) or not all(
            isinstance(number, int | str) and len(str(number)) < 20 for number in prompts
        ):
            raise InputError("must map skills to lists of prompts.", file=path)
        for number in prompts:
            skills.setdefault(str(number).zfill(5), []).append(skill)
    return {prompt: tuple(some) for prompt, some in skills.items()}


BENCHMARKS = {
    "tifa160": Benchmark(TIFA, read_tifa),
    "dsg-tifa160": Benchmark(DSG, read_dsg),
    "seetrue": Benchmark(SEETRUE, read_seetrue),
    "genai-bench": Benchmark(GENAI, read_genai),
}
