"""VSR: does the caption say truly how two things lie in the photograph?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, coco_images, github_files
from contrapose.data.examples import Example, TagValue
from contrapose.data.images import ImageRef
from contrapose.files import MalformedError, Problems, Record, parse_records, read_jsonl_records

FOLDERS = ("images", "trainval2017", "train2017", "val2017", "coco/train2017", "coco/val2017", ".")

V1_COMMIT = "9b2f14dd4921ac509c7738c1efb621c09f3cd353"
V2_COMMIT = "af55c2c21a85aa18aeea131a8b6778c8875f26cf"


def _download(
    repo: str, commit: str, path: str, name: str, size: int, digest: str, images: int
) -> Download:
    """Download of a split: its file, and the COCO images that it names."""
    files = github_files(repo, commit, {path: (name, size, digest)})
    return Download(commit, files, (coco_images("images", "train2017", "val2017", count=images),))


V2_REPO = "cambridgeltl/visual-spatial-reasoning"


CARD = Card(
    name="vsr",
    title="VSR: is the spatial relation in the caption true of the photograph?",
    paper="Liu, Emerson and Collier, Visual Spatial Reasoning, TACL 2023 (arXiv:2205.00363)",
    license="annotations Apache-2.0; images COCO 2017 (Flickr terms)",
    source="first release, random split: github.com/e-bug/fine-grained-evals "
    "(data/vsr/annotations/random/test.jsonl), where the scores of twelve models are too; COCO "
    "train2017 and val2017",
    layout="test.jsonl, or the same under v1/ or annotations/random/\n"
    "images/*.jpg, or train2017/ and val2017/",
    download=_download(
        "e-bug/fine-grained-evals",
        V1_COMMIT,
        "test.jsonl",
        "data/vsr/annotations/random/test.jsonl",
        558777,
        "1a2f89c054558eaa54986e27336e44ae1e2a0dd1208a9de6e724a37eabd58565",
        1743,
    ),
    shape="1 × 1",
    family="judgement",
    counts={"test": 2024},
    aggregation=Micro(),
    chance={"accuracy": 1 / 2},
    tags={"relation": "the spatial relation, one of 60 to 65"},
    by=(),
    scores="judgement",
    other_counts={"the dev split": 1012},
    official="accuracy at 0.5: a score of 0.5 or more says true, as `accuracy` here",
    errata="two releases with other rows: the first has 2,024 test pairs, the second 2,195; the "
    "second one's page says 4,713/231/616 zero-shot pairs, its files hold 3,489/340/1,222. Papers "
    "give accuracy at 0.5, which tells calibration as much as understanding: see AUROC",
)

V2 = replace(
    CARD,
    download=_download(
        V2_REPO,
        V2_COMMIT,
        "random/test.jsonl",
        "data/splits/random/test.jsonl",
        674712,
        "8ade82a0b93ac9dc1e53f6cf1f11e9d5536776a3715102b6b4d27d4f81d551cc",
        1874,
    ),
    name="vsr-v2",
    title="VSR, second release: is the spatial relation true? random split",
    source="github.com/cambridgeltl/visual-spatial-reasoning (data/splits/random/) and COCO "
    "train2017 and val2017",
    layout="random/test.jsonl, or the same under v2/ or data/splits/\n"
    "images/*.jpg, or train2017/ and val2017/",
    counts={"test": 2195},
    tags={**CARD.tags, "reference_frame": "whose left and right is meant, where it was marked"},
    other_counts={"the dev split": 1097},
)

ZEROSHOT = replace(
    V2,
    download=_download(
        V2_REPO,
        V2_COMMIT,
        "zeroshot/test.jsonl",
        "data/splits/zeroshot/test.jsonl",
        380380,
        "914d9156723b912d8f794b179248af865a68c5f81c9d8e3a21d007778cacaad4",
        715,
    ),
    name="vsr-v2-zeroshot",
    title="VSR, second release: is the spatial relation true? things unseen in training",
    source="github.com/cambridgeltl/visual-spatial-reasoning (data/splits/zeroshot/) and COCO "
    "train2017 and val2017",
    layout="zeroshot/test.jsonl, or the same under v2/ or data/splits/\n"
    "images/*.jpg, or train2017/ and val2017/",
    counts={"test": 1222},
    tags=CARD.tags,
    other_counts={"the dev split": 340},
)

FIRST_ZEROSHOT = replace(
    ZEROSHOT,
    name="vsr-zeroshot",
    title="VSR, first release: is the spatial relation true? things unseen in training",
    source="github.com/cambridgeltl/visual-spatial-reasoning at c28c02b (data/splits/zeroshot/) "
    "and COCO train2017 and val2017",
    layout="zeroshot/test.jsonl, or the same under v1/, annotations/ or data/splits/\n"
    "images/*.jpg, or train2017/ and val2017/",
    counts={"test": 731},
    other_counts={"the dev split": 259},
    download=None,
)

FILES = {
    "vsr": ("test.jsonl", "v1/test.jsonl", "annotations/random/test.jsonl"),
    "vsr-v2": ("random/test.jsonl", "data/splits/random/test.jsonl", "v2/random/test.jsonl"),
    "vsr-v2-zeroshot": (
        "zeroshot/test.jsonl",
        "data/splits/zeroshot/test.jsonl",
        "v2/zeroshot/test.jsonl",
    ),
    "vsr-zeroshot": (
        "v1/zeroshot/test.jsonl",
        "annotations/zeroshot/test.jsonl",
        "zeroshot/test.jsonl",
        "data/splits/zeroshot/test.jsonl",
    ),
}


def _reader(card: Card) -> Callable[[Path, Problems], Iterator[Example]]:
    def read(root: Path, problems: Problems) -> Iterator[Example]:
        """Read the test pairs; ids are their positions in the file."""
        names = FILES[card.name] if card is CARD else (*FILES[card.name], "test.jsonl")
        path = find_file(root, *names)

        def build(record: Record) -> Example:
            example = _build_example(record, root)
            # The releases name their files alike; in the second one votes are text.
            votes = record.value.get("vote_true_validator_id")
            if card is FIRST_ZEROSHOT and isinstance(votes, str):
                raise MalformedError(
                    f"record {record.key}: this is the second release, vsr-v2-zeroshot."
                )
            return example

        yield from parse_records(read_jsonl_records(path, problems), build, problems)

    return read


def _build_example(record: Record, root: Path) -> Example:
    label = record.field("label")
    if isinstance(label, bool) or label not in (0, 1):
        raise MalformedError(f"record {record.key}: 'label' must be 0 or 1.")
    name = record.text("image")
    tags: dict[str, TagValue] = {"relation": record.text("relation")}
    if record.value.get("reference_frame") is not None:
        tags["reference_frame"] = f"{record.number('reference_frame'):g}"
    image = ImageRef(name, find_image(root, name, *FOLDERS))
    return Example(record.key, (image,), (record.text("caption"),), ((label == 1,),), tags)


BENCHMARKS = {
    card.name: Benchmark(card, _reader(card)) for card in (CARD, V2, ZEROSHOT, FIRST_ZEROSHOT)
}
