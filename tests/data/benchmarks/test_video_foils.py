"""ViLMA and VITATECS: captions of videos and their foils."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import contrapose as cp
from contrapose.data import Example, find_single_benchmark
from contrapose.data.video_clips import VideoClip
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems
from tests.conftest import Cli
from tests.models.hf.test_video_models import PROCESSORS, save_xclip
from tests.videos import encode_video, gray_frames


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def item(**fields: Any) -> dict[str, Any]:
    return {
        "dataset": "RareAct",
        "youtube_id": "abc",
        "video_file": None,
        "start_time": 1,
        "end_time": 3,
        "time_unit": "sec",
        "caption": "peeling corn",
        "foils": ["peeling a lemon"],
        "proficiency": {
            "caption": "there is corn",
            "foils": ["there is a lemon"],
            "human": {"caption": 1},
        },
        "mturk": {"caption": 2},
        **fields,
    }


def write_relations(root: Path, items: dict[str, Any]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "relations.json").write_text(json.dumps(items, indent=0))


def clip(example: Example) -> VideoClip:
    assert isinstance(example.images[0].source, VideoClip)
    return example.images[0].source


def test_an_item_is_a_test_and_a_proficiency_test(tmp_path: Path) -> None:
    write_relations(tmp_path / "data", {"7": item(foils=["a", "b"])})
    test, simpler = read("vilma/relations", tmp_path)
    assert (test.id, simpler.id) == ("7", "7/proficiency")
    assert test.texts == ("peeling corn", "a", "b")
    assert simpler.texts == ("there is corn", "there is a lemon")
    assert test.tags["item"] == simpler.tags["item"] == "7"
    assert (test.tags["subset"], simpler.tags["subset"]) == ("test", "proficiency")
    assert clip(test) == VideoClip(tmp_path / "videos" / "abc.mp4", start=1.0, end=3.0)


def test_items_that_people_found_invalid_do_not_count(tmp_path: Path) -> None:
    doubtful = item()["proficiency"] | {"human": {"caption": 0}}
    voteless = item(proficiency={"caption": "a", "foils": ["b"]})
    del voteless["mturk"]
    write_relations(
        tmp_path,
        {"a": item(mturk={"caption": 1}), "b": item(proficiency=doubtful), "c": voteless},
    )
    assert [e.id for e in read("vilma/relations", tmp_path)] == ["c", "c/proficiency"]


def test_videos_are_clips_spans_or_whole(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    (videos / "vidsitu").mkdir(parents=True)
    for name in ("vidsitu/xyz_20_30.mp4", "xyz_40_50.mp4", "63.webm", "abc.mkv", "rope.mp4"):
        (videos / name).touch()
    situ = {"dataset": "VidSitu", "youtube_id": "xyz"}
    write_relations(
        tmp_path,
        {
            "clip": item(**situ, video_file="xyz_20_30", start_time=20, end_time=30),
            "other": item(**situ, video_file="xyz_60_70", start_time=60, end_time=70),
            "whole": item(
                dataset="something-something-v2", youtube_id=None, dataset_idx="63",
                start_time=0, end_time=None,
            ),
            "span": item(end_time=-1),
            "frames": item(
                dataset="QUVA", youtube_id=None, video_file="rope.mp4", time_unit="pts",
                start_time=5, end_time=9,
            ),
        },
    )  # fmt: skip
    found = {e.id: clip(e) for e in read("vilma/relations", tmp_path) if "/" not in e.id}
    assert found["clip"] == VideoClip(videos / "vidsitu" / "xyz_20_30.mp4")
    assert found["other"] == VideoClip(videos / "xyz_60_70.mp4", start=60.0, end=70.0)
    assert found["whole"] == VideoClip(videos / "63.webm")
    assert found["span"] == VideoClip(videos / "abc.mkv", start=1.0)
    assert found["frames"] == VideoClip(videos / "rope.mp4", start=5.0, end=9.0, unit="frames")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"caption": 3}, "caption"),
        ({"foils": []}, "'foils' must be a list"),
        ({"foils": ["a", None]}, "foils"),
        ({"proficiency": None}, "object"),
        ({"mturk": {"caption": "many"}}, "caption"),
        ({"youtube_id": None}, "names no video"),
        ({"youtube_id": "../abc"}, "climbs out"),
        ({"start_time": 5}, "must end after"),
        ({"start_time": "soon"}, "start_time"),
        ({"dataset": None}, "dataset"),
    ],
)
def test_malformed_items(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    write_relations(tmp_path, {"a": item(), "b": item(**change)})
    problems = ProblemList()
    assert [e.id for e in read("vilma/relations", tmp_path, problems)] == ["a", "a/proficiency"]
    assert words in problems.problems[0].message


def test_score_files_of_vilma(tmp_path: Path) -> None:
    write_relations(
        tmp_path, {**{str(i): item() for i in range(4)}, "x": item(mturk={"caption": 0})}
    )
    scores = {
        "0": {"scores": [0.9, 0.1], "proficiency": [0.8, 0.2]},
        "1": {"scores": [0.9, 0.1], "proficiency": [0.2, 0.8]},
        "2": {"scores": [0.1, 0.9], "proficiency": [0.8, 0.2]},
        "3": {"scores": [0.5, 0.5], "proficiency": [0.8, 0.2]},
        "x": {"scores": [0.1, 0.9], "proficiency": [0.8, 0.2]},
    }
    file = tmp_path / "clip.json"
    file.write_text(json.dumps(scores))
    run = cp.measure(file, "vilma/relations", root=tmp_path, resamples=100)
    names = ("test_accuracy", "proficiency_accuracy", "combined_accuracy")
    assert [run.metrics[name].value for name in names] == [1 / 2, 3 / 4, 1 / 4]
    assert [run.metrics[name].chance for name in names] == [1 / 2, 1 / 2, 1 / 4]
    assert any("invalid" in note for note in run.results.notes)
    run = cp.measure(file, "vilma/relations", root=tmp_path, resamples=100, protocol="official")
    assert run.metrics["test_accuracy"].value == 3 / 4  # a tie goes to the first
    file.write_text(json.dumps({name: {"scores": row["scores"]} for name, row in scores.items()}))
    with pytest.raises(InputError, match="partial"):
        cp.measure(file, "vilma/relations", root=tmp_path, resamples=100)
    run = cp.measure(file, "vilma/relations", root=tmp_path, resamples=100, partial=True)
    assert run.metrics["test_accuracy"].value == 1 / 2
    assert "combined_accuracy" not in run.metrics
    refused: list[Any] = [{"scores": []}, {"scores": [1, "x"]}, {"scores": [1, 2, 3]}, {}]
    for bad in refused:
        file.write_text(json.dumps({**scores, "0": bad}))
        with pytest.raises(InputError):
            cp.measure(file, "vilma/relations", root=tmp_path, resamples=100)


def write_aspect(root: Path, *rows: dict[str, Any]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (root / "Direction.jsonl").write_text(text)


ROW = {
    "src_dataset": "VATEX",
    "video_name": "a.mp4",
    "caption": "it grows bright",
    "counterfactual": "it grows dark",
    "aspect": "Direction",
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"caption": ""}, "caption"),
        ({"counterfactual": None}, "counterfactual"),
        ({"video_name": "../../a.mp4"}, "climbs out"),
        ({"src_dataset": 3}, "src_dataset"),
    ],
)
def test_malformed_rows(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    write_aspect(tmp_path, ROW, ROW | change)
    problems = ProblemList()
    (example,) = read("vitatecs/direction", tmp_path, problems)
    assert clip(example).path == tmp_path / "videos" / "VATEX" / "a.mp4"
    assert words in problems.problems[0].message
    assert problems.problems[0].line == 2


def test_a_model_on_videos(tmp_path: Path, cli: Cli) -> None:
    encode_video(tmp_path / "videos" / "VATEX" / "a.mp4", gray_frames(12))
    write_aspect(tmp_path, ROW, ROW | {"video_name": "gone.mp4"})
    options = ("--root", tmp_path, "--no-cache", "--resamples", "100", "--device", "cpu", "--json")
    command = ("eval", "tiny-clip", "--on", "vitatecs/direction", "--frames", "2", *options)
    ran = cli(*map(str, command))
    assert ran.status == 0, ran
    (results,) = json.loads(ran.out)["runs"]
    assert results["examples"] == 1
    assert "mean of the scores of 2 frames" in results["notes"][0]
    assert results["skipped"]["reasons"] == {"the video is not there": 1}
    lacking = cli("eval", "tiny-clip", "--on", "vitatecs", *map(str, options)).refused()
    assert "Intensity.jsonl" in lacking
    assert "--subset" in lacking
    why = cli("diagnose", "tiny-clip", "--on", "vitatecs/direction", "--root", str(tmp_path))
    assert "videos" in why.refused()


def test_both_forms_of_a_video(tmp_path: Path, cli: Cli) -> None:
    xclip = save_xclip(tmp_path / "xclip", PROCESSORS["videomae"]())
    root = tmp_path / "data"
    encode_video(root / "videos" / "VATEX" / "a.mp4", gray_frames(12))
    encode_video(root / "videos" / "abc.mp4", gray_frames(4), times=[0.0, 0.2, 1.9, 2.5])
    write_aspect(root, ROW)
    write_relations(root, {"7": item(), "8": item(youtube_id="gone")})
    options = ("--root", root, "--cache", tmp_path / "store", "--resamples", "100", "--json")

    def score(model: str, on: str, *more: str) -> tuple[float, str, dict[str, int]]:
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        command = ("eval", model, "--on", on, "--score", "itm", *more, *options, "--out", out)
        ran = cli(*map(str, command))
        assert ran.status == 0, ran
        (results,) = json.loads(ran.out)["runs"]
        run: Any = cp.load_run(out)
        skipped = (results["skipped"] or {}).get("reasons", {})
        return run.examples()[0]["scores"][0][0], results["notes"][0], skipped

    at_once, note, _ = score(str(xclip), "vitatecs/direction")
    assert note.endswith("reads 4 frames of a video at once, by its video input")
    mean, note, _ = score(f"{xclip},video=frames", "vitatecs/direction")
    assert note == "the score of a video is the mean of the scores of 4 frames"
    assert mean != at_once  # a stored score of one form is not taken for one of the other
    assert score(str(xclip), "vilma/relations")[2] == {"the video is not there": 2}
    why = cli("eval", str(xclip), "--on", "vitatecs/direction", "--frames", "3", *map(str, options))
    assert "--frames 4" in why.refused()


@pytest.mark.parametrize(
    ("part", "count"),
    [("vilma/relations", 393), ("vilma/actor-swapping", 207), ("vitatecs/sequence", 151)],
)
def test_as_released(part: str, count: int, shared: Path) -> None:
    examples = read(part, shared / part.partition("/")[0])
    sizes = find_single_benchmark(part).card.counts
    assert len(examples) == sum(sizes.values())
    assert set(sizes.values()) == {count}


def test_a_part_that_is_not_there(shared: Path) -> None:
    with pytest.raises(InputError, match=r"lacks Type\.jsonl"):
        read("vitatecs/type", shared / "vitatecs")
