"""ViLMA and VITATECS: a video, a caption, and foils that differ in what happens over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from contrapose.data.benchmarks.common import find_folder, require_folder
from contrapose.data.cards import Benchmark, Card, Micro, Suite
from contrapose.data.downloads import Download, RemoteFile, github_files
from contrapose.data.examples import Example, TagValue, single_match
from contrapose.data.video_clips import VideoRef
from contrapose.data.video_frames import VideoFolder
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    read_jsonl_records,
)


def _find_part(root: Path, name: str, part: str) -> Path:
    """Find the annotation file of a part, in the root or in data/ below it.

    Raises:
        InputError: it is not there.
    """
    require_folder(root)
    for path in (root / name, root / "data" / name):
        if path.is_file():
            return path
    suite = part.partition("/")[0]
    raise InputError(
        f"lacks {name}, of the part {part}; {option('subset')} names the parts of {suite} to read.",
        file=root,
    )


def _video_folder(root: Path) -> VideoFolder:
    return VideoFolder(find_folder(root, "videos", "video"))


@dataclass(frozen=True, slots=True)
class Task:
    """Part of ViLMA.

    Attributes:
        file: its annotation file, without suffix.
        task: one of the five tasks of the paper.
        count: items of which people found both tests valid; None where it is not known.
        title: one line.
    """

    file: str
    task: str
    count: int | None
    title: str


COUNTING, SITUATION, STATE = "action counting", "situation awareness", "change of state"
TASKS = {
    "counting-easy": Task("counting-easy-digits", COUNTING, 999, "how often, far numbers"),
    "counting-hard": Task("counting-hard-digits", COUNTING, 930, "how often, near numbers"),
    "action-replacement": Task("SRL_Action_Replacement_Top_1000", SITUATION, 704, "another action"),
    "actor-swapping": Task("SRL_Actor_Swapping", SITUATION, 207, "who does it to whom"),
    "state-action": Task("change-state-action", STATE, 314, "the opposite action"),
    "state-before": Task("change-state-prestate", STATE, None, "the state before"),
    "state-after": Task("change-state-poststate", STATE, None, "the state after"),
    "state-inverse": Task("change-state-inverse", STATE, 236, "before, action and after reversed"),
    "rare-noun": Task("rare-actions-noun-foils", "rare actions", 692, "another thing"),
    "rare-verb": Task("rare-actions-verb-foils", "rare actions", 751, "another action"),
    "relations": Task("relations", "spatial relations", 393, "another preposition"),
}
"""Parts of ViLMA by name."""

SOMETHING = "something-something-v2"
"""Dataset whose videos are named by their number in it."""

VILMA_DOWNLOAD = Download(
    None,
    tuple(
        RemoteFile(
            f"{task.file}.json",
            f"https://raw.githubusercontent.com/ilkerkesen/ViLMA/HEAD/data/{task.file}.json",
        )
        for task in TASKS.values()
    ),
    by_hand="put the videos that github.com/ilkerkesen/ViLMA names into videos/",
)

VALID_VOTES = 2
"""Of three annotators, so many chose the caption and not a foil."""


def _vilma_card(part: str) -> Card:
    task = TASKS[part]
    count = {} if task.count is None else {"test": task.count, "proficiency": task.count}
    several = part == "action-replacement"  # one or two foils
    chance = {} if several else {"test_accuracy": 1 / 2, "combined_accuracy": 1 / 4}
    unseen = "" if task.count is not None else ". The file itself was not seen"
    return Card(
        name=f"vilma/{part}",
        title=f"ViLMA, {task.task}: {task.title}",
        paper="Kesen et al., ViLMA: A Zero-Shot Benchmark for Linguistic and Temporal Grounding in "
        "Video-Language Models, ICLR 2024 (arXiv:2311.07022)",
        license="annotations MIT; videos under the terms of QUVA, VidSitu, COIN, YouCook2, STAR, "
        "RareAct and Something-Something V2",
        source="github.com/ilkerkesen/ViLMA (data/), which names the sources of the videos",
        layout=f"{task.file}.json, here or in data/\n"
        "videos/ with <video_file>, <youtube_id>.mp4 or <dataset_idx>.webm, in any folder below",
        shape="1 × 2 or 3" if several else "1 × 2",
        family="proficiency",
        counts=count,
        aggregation=Micro(),
        chance={"proficiency_accuracy": 1 / 2, **chance},
        tags={
            "subset": "test, or proficiency: the simpler test that it rests on",
            "item": "key of the annotation; both tests of an item have the same",
            "task": "one of five",
            "dataset": "where the video comes from",
        },
        by=("dataset",),
        scores="vilma",
        official_ties="right",
        official="argmax: a tie goes to the caption, which stands first; T, P and P+T are "
        "test_accuracy, proficiency_accuracy and combined_accuracy",
        errata="items count where people found the test and the proficiency test valid; the "
        "counting files hold no votes, so that all of their items count, and not 1,432 as in the "
        f"paper{unseen}",
        download=VILMA_DOWNLOAD,
    )


def _read_vilma(part: str) -> Callable[[Path, Problems], Iterator[Example]]:
    task = TASKS[part]

    def read(root: Path, problems: Problems) -> Iterator[Example]:
        path = _find_part(root, f"{task.file}.json", f"vilma/{part}")
        videos = _video_folder(root)

        def build(record: Record) -> tuple[Example, ...]:
            return _build_item(record, videos, task.task)

        for examples in parse_records(read_json_records(path, problems), build, problems):
            yield from examples

    return read


def _build_item(record: Record, videos: VideoFolder, task: str) -> tuple[Example, ...]:
    """Build the test and the proficiency test of an item; none where people found one invalid."""
    simpler = record.inner(record.field("proficiency"))
    votes, simpler_votes = _read_votes(record, "mturk"), _read_votes(simpler, "human")
    if (votes is not None and votes < VALID_VOTES) or simpler_votes not in (None, 1):
        return ()
    video = _refer_to_video(record, videos)
    tags: dict[str, TagValue] = {
        "item": record.key,
        "task": task,
        "dataset": record.text("dataset"),
    }
    examples = []
    for test, part in (("test", record), ("proficiency", simpler)):
        foils = part.field("foils")
        if not isinstance(foils, list) or not foils:
            raise MalformedError(f"record {record.key}: 'foils' must be a list of captions.")
        texts = [part.text("caption")]
        texts += [replace(part, value={"foils": foil}).text("foils") for foil in foils]
        name = record.key if test == "test" else f"{record.key}/{test}"
        match = single_match(len(texts), 0)
        examples.append(Example(name, (video,), tuple(texts), match, {"subset": test, **tags}))
    return tuple(examples)


def _read_votes(record: Record, name: str) -> int | None:
    """Votes for the caption; None where the file has none."""
    if not isinstance(record.value, dict) or name not in record.value:
        return None
    return record.inner(record.field(name)).integer("caption")


def _refer_to_video(record: Record, videos: VideoFolder) -> VideoRef:
    """Reference to the clip of an item: a file of its own, or a span of a longer video."""
    fields = ["video_file", "youtube_id"]
    if record.value.get("dataset") == SOMETHING:
        fields.append("dataset_idx")
    names = [record.name(field) for field in fields if record.value.get(field) is not None]
    if not names:
        raise MalformedError(f"record {record.key}: names no video.")
    start, end = (
        None if record.value.get(bound) is None else record.number(bound)
        for bound in ("start_time", "end_time")
    )
    for name in names:
        for path in videos.candidates(name):
            if _is_clip(path, start, end):
                return VideoRef(path, key=names[0])
    paths = (path for name in names for path in videos.candidates(name) if path.stem in name)
    return VideoRef(
        next(paths, None) or videos.path(names[0]),
        key=names[0],
        start=start or 0.0,
        end=None if end is None or end < 0 else end,
        unit="frames" if record.value.get("time_unit") == "pts" else "seconds",
    )


def _is_clip(path: Path, start: float | None, end: float | None) -> bool:
    """Whether a file is named by this span, as `NAME_20_30.mp4` is."""
    bounds = path.stem.rsplit("_", 2)[1:]
    digits = len(bounds) == 2 and all(bound.isdecimal() for bound in bounds)
    return digits and [float(bound) for bound in bounds] == [start, end]


VILMA = Suite(
    "vilma",
    "ViLMA: counting, situations, states, rare actions and relations in videos",
    {part: Benchmark(_vilma_card(part), _read_vilma(part)) for part in TASKS},
)

ASPECTS = {
    "direction": 3800,
    "intensity": 779,
    "sequence": 151,
    "compositionality": 1450,
    "localization": 1053,
    "type": 6605,
}
"""Part of VITATECS → number of its examples."""

VITATECS_COMMIT = "286c5d55fbdd1cb8fdc15d83c5c39d0e42b74b55"
VITATECS_FILES: dict[str, tuple[int | None, str | None]] = {
    "direction": (999128, "0af0d9eb5692b31a5751d0fe9c32930e5076711ea67f9fec12be9cb77b6ef7f0"),
    "intensity": (208922, "084499313b80e4760f1a27c95a69cc7b94850004101945946b06396b0bf9c2f3"),
    "sequence": (41951, "b839b664486724ddf90343af5fa674ce6ab81ffd219d8fd520b377c7ad39e8dd"),
    "compositionality": (
        390293, "1e891eb36261993ec5c385a61fd8e5cdb1a4ee4cbc01f10bbfb1bcd10e41221e"
    ),
    "localization": (288722, "e92c6da4bbfe46fee5fd5e0d2eac12a1d41f18d76470de905248bc1727fa176c"),
    "type": (None, None),
}  # fmt: skip
"""Part → size and SHA-256 of its file."""

VITATECS_DOWNLOAD = Download(
    VITATECS_COMMIT,
    github_files(
        "lscpku/VITATECS",
        VITATECS_COMMIT,
        {
            f"{aspect.title()}.jsonl": (f"data/{aspect.title()}.jsonl", *facts)
            for aspect, facts in VITATECS_FILES.items()
        },
    ),
    by_hand="put the videos of MSR-VTT into videos/MSRVTT and those of VATEX into videos/VATEX",
)


def _vitatecs_card(aspect: str) -> Card:
    file = f"{aspect.title()}.jsonl"
    return Card(
        name=f"vitatecs/{aspect}",
        title=f"VITATECS, {aspect}: a caption of a video, and one that differs in this alone",
        paper="Li et al., VITATECS: A Diagnostic Dataset for Temporal Concept Understanding of "
        "Video-Language Models, ECCV 2024 (arXiv:2311.17404)",
        license="annotations CC BY 4.0; videos under the terms of MSR-VTT and VATEX",
        source="github.com/lscpku/VITATECS (data/), and the videos of MSR-VTT and VATEX",
        layout=f"{file}, here or in data/: src_dataset, video_name, caption, counterfactual\n"
        "videos/MSRVTT/*.mp4 and videos/VATEX/*.mp4",
        shape="1 × 2",
        family="choice",
        counts={aspect: ASPECTS[aspect]},
        aggregation=Micro(),
        chance={"accuracy": 1 / 2},
        tags={"dataset": "MSRVTT or VATEX", "video": "name of the video"},
        by=("dataset",),
        match=single_match(2, 0),
        download=VITATECS_DOWNLOAD,
    )


def _read_vitatecs(aspect: str) -> Callable[[Path, Problems], Iterator[Example]]:
    def read(root: Path, problems: Problems) -> Iterator[Example]:
        path = _find_part(root, f"{aspect.title()}.jsonl", f"vitatecs/{aspect}")
        videos = _video_folder(root)

        def build(record: Record) -> Example:
            dataset, name = record.text("src_dataset"), record.text("video_name")
            key = f"{dataset}/{name}"
            file = next(iter(videos.candidates(key)), videos.root / key)
            return Example(
                record.key,
                (VideoRef(file, key=key),),
                (record.text("caption"), record.text("counterfactual")),
                single_match(2, 0),
                {"dataset": dataset, "video": name},
            )

        yield from parse_records(read_jsonl_records(path, problems), build, problems)

    return read


VITATECS = Suite(
    "vitatecs",
    "VITATECS: six temporal aspects of videos, by captions with one of them changed",
    {aspect: Benchmark(_vitatecs_card(aspect), _read_vitatecs(aspect)) for aspect in ASPECTS},
)

BENCHMARKS = {"vilma": VILMA, "vitatecs": VITATECS}
