"""A check names everything that is wrong, opens every image once, and never falls over."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.data import (
    Benchmark,
    BenchmarkData,
    Example,
    ImageRef,
    check,
    find_single_benchmark,
    open_image,
)
from contrapose.data.check import DataReport, check_data
from contrapose.files import MalformedError, Problems

CHOICE: dict[str, Any] = {"image": "a.png", "texts": ["x", "y"], "right": 0}


def own(root: Path, *records: Any) -> Benchmark:
    path = root / "mine.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in records))
    return find_single_benchmark(str(path))


def picture(root: Path, name: str = "a.png", kind: str = "PNG") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path, kind)


def kinds(report: DataReport) -> dict[str, int]:
    return dict(Counter(problem.kind for problem in report.problems))


def noted(report: DataReport) -> dict[str, int]:
    return dict(Counter(note.kind for note in report.notes))


def test_all_is_well(tmp_path: Path) -> None:
    picture(tmp_path)
    picture(tmp_path, "b.png")
    pair = {"images": ["a.png", "b.png"], "texts": ["x", "z"], "match": [[1, 0], [0, 1]]}
    report = check_data(own(tmp_path, CHOICE, pair), tmp_path)
    assert report.ok
    assert (report.images, report.opened, report.captions) == (2, 2, 3)
    assert report.examples == {str(tmp_path / "mine.jsonl"): 2}
    assert report.notes == ()


def test_examples_are_counted_by_subset(tmp_path: Path) -> None:
    records = [{**CHOICE, "tags": {"subset": name}} for name in ("a", "b", "a")]
    report = check_data(own(tmp_path, *records), tmp_path, images=False)
    assert report.examples == {"a": 2, "b": 1}


def test_everything_wrong_is_found_at_once(tmp_path: Path) -> None:
    picture(tmp_path, "good.png")
    (tmp_path / "bad.png").write_bytes(b"no image")
    benchmark = own(
        tmp_path,
        {**CHOICE, "id": "1", "image": "good.png"},
        {**CHOICE, "id": "1", "image": "good.png"},
        {**CHOICE, "id": "2", "image": "none.png"},
        {**CHOICE, "id": "3", "image": "bad.png"},
        {**CHOICE, "id": "4", "image": "../out.png"},
        {**CHOICE, "id": "5", "right": 9},
        {**CHOICE, "id": "6", "texts": ["x", ""]},
    )
    report = check_data(benchmark, tmp_path)
    assert not report.ok
    assert kinds(report) == {
        "malformed record": 3,
        "duplicate id": 1,
        "missing image": 1,
        "unreadable image": 1,
    }
    assert [p.line for p in report.problems if p.kind == "malformed record"] == [5, 6, 7]
    by_kind = {problem.kind: problem for problem in report.problems}
    assert by_kind["missing image"].file == tmp_path / "none.png"
    assert by_kind["unreadable image"].file == tmp_path / "bad.png"
    assert "'1' comes more than once" in by_kind["duplicate id"].message
    assert (report.images, report.opened, sum(report.examples.values())) == (3, 1, 4)


def test_without_images(tmp_path: Path) -> None:
    report = check_data(own(tmp_path, CHOICE), tmp_path, images=False)
    assert report.ok
    assert (report.images, report.opened) == (1, 0)


def test_an_image_under_another_name_is_a_note(tmp_path: Path) -> None:
    picture(tmp_path, "a.JPG", "JPEG")
    report = check_data(own(tmp_path, CHOICE), tmp_path)
    assert report.ok
    assert [str(note) for note in report.notes] == [f"{tmp_path / 'a.png'}: is there as a.JPG."]


def test_captions_and_images_that_cannot_be_told_apart_are_notes(tmp_path: Path) -> None:
    picture(tmp_path)
    same = {"images": ["a.png", "a.png"], "texts": ["x", "x"], "match": [[1, 0], [0, 1]]}
    report = check_data(own(tmp_path, same, CHOICE), tmp_path)
    assert report.ok
    assert noted(report) == {"same caption": 2, "same image": 1}
    assert "'x' is right and wrong of a.png" in report.notes[0].message


def test_each_image_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path)
    lock, opened = threading.Lock(), Counter[object]()

    def counted(ref: ImageRef) -> Image.Image:
        with lock:
            opened[ref.crop] += 1
        return open_image(ref)

    monkeypatch.setattr(check, "open_image", counted)
    refs = [ImageRef("a", tmp_path / "a.png", crop=crop) for crop in (None, (0, 0, 2, 2), None)]

    def read(root: Path, problems: Problems) -> BenchmarkData:
        return [Example(str(i), (ref,), ("x", "y"), ((True, False),)) for i, ref in enumerate(refs)]

    done: list[tuple[int, int]] = []
    benchmark = Benchmark(find_single_benchmark("cola").card, read)
    report = check_data(benchmark, tmp_path, progress=lambda *step: done.append(step))
    assert opened == {None: 1, (0, 0, 2, 2): 1}
    assert done == [(1, 2), (2, 2)]
    assert report.opened == 2


def test_only_a_few_images_are_open_at_a_time(tmp_path: Path) -> None:
    groups = [(ImageRef(str(i), tmp_path / f"{i}.png"),) for i in range(100)]
    submitted = 0

    class Counted(list[tuple[ImageRef, ...]]):
        def __iter__(self) -> Iterator[tuple[ImageRef, ...]]:
            nonlocal submitted
            for group in groups:
                submitted += 1
                yield group

    for taken, (group, fault) in enumerate(check._open_all(Counted(groups), workers=2), start=1):
        assert group == groups[taken - 1]
        assert fault is not None
        assert submitted <= taken + 8
    assert taken == 100


def test_counts_that_differ_are_notes(tmp_path: Path) -> None:
    record = {"filename": "a.jpg", "caption": "x", "negative_caption": "y"}
    (tmp_path / "add_att.json").write_text(json.dumps({str(i): record for i in range(692)}))
    (tmp_path / "swap_obj.json").write_text(json.dumps({"0": record}))
    report = check_data(find_single_benchmark("sugarcrepe"), tmp_path, images=False)
    assert report.ok
    assert report.examples == {"add_att": 692, "swap_obj": 1}
    assert report.expected["swap_obj"] == 245
    messages = [note.message for note in report.notes]
    assert any("swap_obj: 1 examples" in message and "245" in message for message in messages)
    assert not any(message.startswith("add_att") for message in messages)
    assert len(messages) == 6


@pytest.mark.parametrize("name", ["winoground", "sugarcrepe", "simat", "cola", "coco-retrieval"])
def test_a_folder_without_the_files_is_a_problem(tmp_path: Path, name: str) -> None:
    report = check_data(find_single_benchmark(name), tmp_path)
    assert [problem.kind for problem in report.problems] == ["unreadable file"]
    assert report.problems[0].file == tmp_path
    report = check_data(find_single_benchmark(name), tmp_path / "none")
    assert "is not a folder" in report.problems[0].message


def test_a_file_cut_off_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    record = {"filename": "a.jpg", "caption": "x", "negative_caption": "y"}
    full = json.dumps({"0": record, "1": record}, indent=1)
    (tmp_path / "add_att.json").write_text(full[:-30])
    report = check_data(find_single_benchmark("sugarcrepe"), tmp_path, images=False)
    assert report.examples == {"add_att": 1}
    assert kinds(report) == {"unreadable file": 1}
    assert report.problems[0].file == tmp_path / "add_att.json"
    assert report.problems[0].line is not None


def test_readers_that_fall_over(tmp_path: Path) -> None:
    card = find_single_benchmark("cola").card

    def malformed(root: Path, problems: Problems) -> BenchmarkData:
        raise MalformedError("a plug-in forgot to parse.")

    def locked(root: Path, problems: Problems) -> BenchmarkData:
        raise PermissionError(13, "Permission denied", str(root / "x"))

    report = check_data(Benchmark(card, malformed), tmp_path)
    assert [str(p) for p in report.problems] == [f"{tmp_path}: a plug-in forgot to parse."]
    report = check_data(Benchmark(card, locked), tmp_path)
    assert report.problems[0].file == tmp_path / "x"
    assert "Permission denied" in report.problems[0].message


def test_galleries(tmp_path: Path) -> None:
    picture(tmp_path, "cat/a.png")
    picture(tmp_path, "dog/b.png")
    (tmp_path / "dog" / "c.jpg").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    report = check_data(find_single_benchmark("class-folders"), tmp_path)
    assert report.examples == {"class-folders": 3}
    assert (report.images, report.opened, report.captions) == (3, 2, 3)
    assert kinds(report) == {"unreadable image": 1}
    assert [note.message for note in report.notes] == ["no image belongs to 'empty'."]


def test_a_card_with_other_names_for_its_subsets(tmp_path: Path) -> None:
    picture(tmp_path)
    benchmark = own(tmp_path, {**CHOICE, "tags": {"piece": "plurals"}})
    card = replace(benchmark.card, counts={"plurals": 1, "other": 2}, by=("piece",))
    report = check_data(Benchmark(card, benchmark.read), tmp_path)
    assert report.examples == {"plurals": 1}
    assert [note.kind for note in report.notes] == ["other count"]


def test_real_annotations_are_whole(shared: Path) -> None:
    result = {
        name: check_data(find_single_benchmark(name), shared / folder, images=False)
        for name, folder in (
            ("sugarcrepe", "sugarcrepe"),
            ("sugarcrepe-pp", "sugarcrepe_pp"),
            ("hard-positives-replace", "hard_positives"),
            ("cola", "cola"),
            ("simat", "simat"),
        )
    }
    for report in result.values():
        assert report.ok
        assert report.examples == report.expected
    assert result["sugarcrepe"].images == 1560
    assert result["simat"].images == 5859
    # Real slips: captions that are their own negatives, or negatives that became positives.
    assert noted(result["sugarcrepe-pp"]) == {"same caption": 2}
    assert noted(result["hard-positives-replace"]) == {"same caption": 16}


def test_real_annotations_without_images(shared: Path) -> None:
    report = check_data(find_single_benchmark("cola"), shared / "cola")
    assert kinds(report) == {"missing image": 218}
    assert (report.images, report.opened) == (218, 0)


def test_videos_that_the_system_refuses(tmp_path: Path) -> None:
    """A name that is too long is one problem, and does not end the check."""
    picture(tmp_path)
    long = {"video": f"{'a' * 300}.mp4", "texts": ["x", "y"], "right": 0}
    missing = {"video": "b.mp4", "texts": ["x", "y"], "right": 0}
    report = check_data(own(tmp_path, long, CHOICE, missing), tmp_path)
    assert kinds(report) == {"unreadable video": 1, "missing video": 1}
    assert report.opened == 1
