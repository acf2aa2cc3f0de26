"""Hard positives: a caption changed so that it still fits, beside one that no longer does."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image, read_box, require_folder
from contrapose.data.cards import Benchmark, Card, Macro, Micro
from contrapose.data.downloads import GENOME_URL, Download, Manual, RemoteImages, github_files
from contrapose.data.examples import Example, TagValue
from contrapose.data.images import Box, ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_json_records,
)

MATCH = ((True, False, True),)
"""Original, hard negative, hard positive."""

REPLACE = {"relations": 16868, "attributes": 10575}
SWAP = "visual_genome_attribution.json"
POSITIVE = "hard positive"
"""The field that a record gets from its partner in the second file."""

REPO = "amitakamath/hard_positives"

DOWNLOAD = Download(
    "bab28ba0825c27680540db2fae36c5ec4d2be511",
    (
        *github_files(
            REPO,
            "8397123a9fb0140c174765df38c08309fdd197ea",
            {
                "data/vl_checklist_attributes.json": (
                    "data/vl_checklist_attributes.json",
                    1522662,
                    "4c7d262e77e1a1fd5a89ee0de43191fe697d4cf1c044e76c496761f07d824950",
                ),
                "data/vl_checklist_relations.json": (
                    "data/vl_checklist_relations.json",
                    2484434,
                    "f4aee47194df09f73c4bdb13e2f24c17901d71fbb15ab629b40c8667a841d535",
                ),
            },
        ),
        *github_files(
            REPO,
            "bab28ba0825c27680540db2fae36c5ec4d2be511",
            {
                "swapped_data/vl_checklist_attributes.json": (
                    "swapped_data/vl_checklist_attributes.json",
                    1535707,
                    "7f6d2f2614ff8a037780ab4b6243c6e1165ceabc5e4db506ad70c63fd95f6441",
                ),
                "swapped_data/vl_checklist_relations.json": (
                    "swapped_data/vl_checklist_relations.json",
                    2499572,
                    "25174b3f0286c124cd7c2c844c1e57bb85179e37cdee0d55fc2857387dede9b5",
                ),
            },
        ),
    ),
    (
        RemoteImages("data/VG_100K", (f"{GENOME_URL}/VG_100K/{{name}}",), 4797),
        RemoteImages("data/VG_100K_2", (f"{GENOME_URL}/VG_100K_2/{{name}}",), 3244),
    ),
)

PAPER = (
    "Kamath et al., The Hard Positive Truth about Vision-Language Compositionality, ECCV 2024 "
    "(arXiv:2409.17958)"
)
CHANCE = {"original_accuracy": 1 / 2, "augmented_accuracy": 1 / 3, "brittleness": 1 / 3}

REPLACE_CARD = Card(
    name="hard-positives-replace",
    title="Hard positives REPLACE: one word for another that means the same, or does not",
    paper=PAPER,
    license="annotations: none stated; images Visual Genome (CC BY 4.0)",
    source="github.com/amitakamath/hard_positives and Visual Genome's two image parts",
    layout="data/vl_checklist_{relations,attributes}.json, swapped_data/ with the same names;\n"
    "or replace_{relations,attributes}_{original,hard_positive}.json\n"
    "data/VG_100K/<id>.jpg and data/VG_100K_2/<id>.jpg, or the same without data/",
    download=DOWNLOAD,
    shape="1 × 3",
    family="triple",
    counts=REPLACE,
    aggregation=Macro("subset"),
    chance=CHANCE,
    tags={
        "subset": "relations or attributes: what was replaced",
        "replaced": "the word or phrase of the original and that of the hard positive, as in "
        "“in -> within”",
    },
    by=("subset", "replaced"),
    match=MATCH,
    scores="subset arrays",
)

SWAP_CARD = Card(
    name="hard-positives-swap",
    title="Hard positives SWAP: the two sides of “and” change places",
    paper=PAPER,
    license="annotations: none stated, made from ARO (MIT); images Visual Genome (CC BY 4.0)",
    source="github.com/mertyg/vision-language-models-are-bows (ARO's VG-Attribution and images)",
    layout=f"data/{SWAP}, or the same without data/: ARO's own file\n"
    f"swapped_data/{SWAP} (optional): the same rows with the hard positive as true_caption;\n"
    "  without it the two sides of “and” are exchanged here\n"
    "data/images/<id>.jpg, or images/",
    download=Manual(
        "https://github.com/mertyg/vision-language-models-are-bows",
        "fetch visual_genome_attribution.json and vgr_vga_images.zip from its Google Drive",
    ),
    shape="1 × 3",
    family="triple",
    counts={"swap": 28748},
    aggregation=Micro(),
    chance=CHANCE,
    tags={"attributes": "the two attributes, as ARO groups them"},
    by=(),
    match=MATCH,
)


def read_replace(root: Path, problems: Problems) -> Iterator[Example]:
    """Read REPLACE: the originals and the hard positives, two files row by row."""
    require_folder(root)
    any_subset = False
    for subset in REPLACE:
        originals = (f"data/vl_checklist_{subset}.json", f"replace_{subset}_original.json")
        positives = (
            f"swapped_data/vl_checklist_{subset}.json",
            f"replace_{subset}_hard_positive.json",
        )
        if not any((root / name).is_file() for name in (*originals, *positives)):
            continue
        any_subset = True
        files = find_file(root, *originals), find_file(root, *positives)

        def build(record: Record, subset: str = subset) -> Example:
            image = _find_record_image(root, record, ("data", "."))
            texts = _read_texts(record, record.text(POSITIVE))
            tags = {"subset": subset, "replaced": find_replacement(texts[0], texts[2])}
            return Example(f"{subset}/{record.key}", (image,), texts, MATCH, tags)

        yield from parse_records(_align_records(*files, problems), build, problems)
    if not any_subset:
        raise InputError(
            "holds neither data/vl_checklist_*.json nor replace_*_original.json.", file=root
        )


def find_replacement(original: str, positive: str) -> str:
    """Find the word or phrase that a hard positive replaces, as `in -> within`; empty if none.

    The released files replace every occurrence of a word, also inside of others (“whiteboard”
    becomes “ivoryboard”), so the shortest of the changed words is the one that was meant.
    """
    old, new = original.split(), positive.split()
    shortest = min(len(old), len(new))
    start = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    end = next((i for i in range(shortest - start) if old[-1 - i] != new[-1 - i]), shortest - start)
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    if left and right:
        changes = _changed_words(left, right)
    elif left or right:  # “on top of” becomes “on”: the word before belongs to the phrase
        before = old[max(start - 1, 0) : start]
        changes = [(" ".join(before + left), " ".join(before + right))]
    else:
        return ""
    word, replacement = min(changes, key=lambda change: len(change[0]))
    return f"{word} -> {replacement}"


def _changed_words(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    """Pairs of words, or of phrases of different lengths, that stand for one another."""
    changes: list[tuple[str, str]] = []
    for kind, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "replace" and i_end - i == j_end - j:
            changes += zip(old[i:i_end], new[j:j_end], strict=True)
        elif kind == "replace":
            changes.append((" ".join(old[i:i_end]), " ".join(new[j:j_end])))
    return changes or [(" ".join(old), " ".join(new))]


def read_swap(root: Path, problems: Problems) -> Iterator[Example]:
    """Read SWAP: ARO's VG-Attribution records, with the hard positive read or derived."""
    original = find_file(root, f"data/{SWAP}", SWAP)
    swapped = root / "swapped_data" / SWAP

    def build(record: Record) -> Example:
        crop = read_box(record, "bbox_x", "bbox_y", "bbox_w", "bbox_h")
        image = _find_record_image(root, record, ("data/images", "images"), crop)
        given = record.value.get(POSITIVE)
        texts = _read_texts(record, given or swap_sides(record.text("true_caption")))
        return Example(record.key, (image,), texts, MATCH, _read_attributes(record))

    there = swapped.is_file()
    records = (
        _align_records(original, swapped, problems)
        if there
        else read_json_records(original, problems)
    )
    yield from parse_records(records, build, problems)


def swap_sides(caption: str) -> str:
    """Swap the two sides of “and” in a caption.

    VG-Attribution's captions read “the white fence and the green tree”.

    Raises:
        MalformedError: it does not, or it is not clear which “and” joins the two sides.
    """
    sides = caption.split(" and the ")
    if len(sides) != 2 or not sides[0].startswith("the "):
        raise MalformedError(f"expected “the … and the …”, found {caption!r}.")
    return f"the {sides[1]} and {sides[0]}"


def _align_records(original: Path, positive: Path, problems: Problems) -> Iterator[Record]:
    """Merge each record of the first file with the caption of the second's same row.

    A row that shows another image or another negative in the second file is a malformed record:
    from there on the two files would no longer speak of the same examples.
    """
    pairs = zip_longest(
        read_json_records(original, problems), read_json_records(positive, problems)
    )
    for first, second in pairs:
        if first is None or second is None:
            longer = first or second
            message = f"record {longer.key} has no partner in {original.name} or {positive.name}."
            problems.report(Problem("malformed record", message, longer.file, longer.line))
            continue
        at = first
        try:
            shared = [(name, first.field(name)) for name in ("false_caption", "image_path")]
            at = second
            for name, value in shared:
                if second.field(name) != value:
                    raise MalformedError(
                        f"record {second.key}: {name!r} is not that of the same row in "
                        f"{original.name}; are the files aligned?"
                    )
            merged = {**first.value, POSITIVE: second.text("true_caption")}
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), at.file, at.line))
        else:
            yield Record(merged, first.file, first.line, first.key)


def _find_record_image(
    root: Path, record: Record, folders: tuple[str, ...], crop: Box | None = None
) -> ImageRef:
    name = record.text("image_path").removeprefix("data/")
    return ImageRef(name, find_image(root, name, *folders), crop)


def _read_texts(record: Record, positive: str) -> tuple[str, ...]:
    return record.text("true_caption"), record.text("false_caption"), positive


def _read_attributes(record: Record) -> dict[str, TagValue]:
    names = record.value.get("attributes")
    if not isinstance(names, list) or not names:
        return {}
    return {"attributes": "_".join(map(str, names))}


BENCHMARKS = {
    "hard-positives-replace": Benchmark(REPLACE_CARD, read_replace),
    "hard-positives-swap": Benchmark(SWAP_CARD, read_swap),
}
