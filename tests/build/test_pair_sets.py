from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.api.check import check_data
from contrapose.build.minimal_pairs import (
    MinimalPair,
    PairImage,
    PairSetBuild,
    PairSource,
    SourcePairs,
    file_name,
)
from contrapose.build.pair_sets import plan_pair_set, write_pair_set
from contrapose.data import find_benchmark
from contrapose.errors import InputError
from contrapose.files import StrictProblems

SIZE = (8, 8)


def make_source(number: int, calls: list[str] | None = None, pairs: int = 2) -> PairSource:
    name = f"video {number}"

    def make() -> SourcePairs:
        if calls is not None:
            calls.append(name)
        images = [
            PairImage(f"{file_name(name)}/{i}", Image.new("RGB", SIZE, (number, i, 0)))
            for i in range(pairs + 1)
        ]
        some = [
            MinimalPair(
                f"{number}-{i}",
                (images[i], images[i + 1]),
                (f"cube {i} of {number}", f"cube {i + 1} of {number}"),
                {"video": name},
                ("cube",),
            )
            for i in range(pairs)
        ]
        return SourcePairs(
            some,
            {"sharp frames": pairs + 1, "pairs": pairs},
            () if pairs else ("broken",),
            () if pairs else ("is odd",),
        )

    return PairSource(name, f"print {number}", make, {"frames": pairs + 3})


def settings(**options: Any) -> PairSetBuild:
    return PairSetBuild(**{"builder": "graph", "subset": "ag", "source": "graph.json", **options})


def read_tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("subset", ["ag", "gebc", "sd", "mine"])
def test_set_is_read_back(tmp_path: Path, subset: str) -> None:
    out = tmp_path / "set"
    sources = [make_source(0), make_source(1), make_source(2, pairs=0)]
    manifest = write_pair_set(sources, out, settings(subset=subset, counts={"annotated": 9}))
    assert manifest["filters"] == {
        "annotated": 9, "frames": 13, "sharp frames": 7, "pairs": 4,
    }  # fmt: skip
    assert manifest["written"] == {"pairs": 4, "images": 6, "captions": 6, "sources": 2}
    assert manifest["unreadable"] == [{"source": "video 2", "reason": "broken"}]
    assert manifest["notes"] == [{"source": "video 2", "note": "is odd"}]
    assert "blind score cannot solve" in manifest["audit"]["verdict"][0]
    assert json.loads((out / "manifest.json").read_text()) == manifest
    name = manifest["read_with"]
    assert name == ("examples.jsonl" if subset == "mine" else "eqben")
    benchmark: Any = find_benchmark(str(out / name) if subset == "mine" else name)
    examples = list(benchmark.read(out, StrictProblems()))
    assert [example.texts[0] for example in examples] == [
        "cube 0 of 0", "cube 1 of 0", "cube 0 of 1", "cube 1 of 1",
    ]  # fmt: skip
    assert {example.tags["subset"] for example in examples} == {subset}
    (report,) = check_data(str(out / name) if subset == "mine" else name, root=out)
    assert report.ok
    assert report.opened == 6
    content = read_tree(out)
    del content["manifest.json"]
    assert manifest["sha256"] == {
        name: hashlib.sha256(some).hexdigest() for name, some in content.items()
    }
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_workers_change_nothing(tmp_path: Path) -> None:
    sources = [make_source(i) for i in range(8)]
    for workers in (1, 3):
        write_pair_set(sources, tmp_path / f"{workers}", settings(workers=workers))
    assert read_tree(tmp_path / "1") == read_tree(tmp_path / "3")


def test_jpeg(tmp_path: Path) -> None:
    manifest = write_pair_set(
        [make_source(0)], tmp_path / "set", settings(image_format="jpeg", quality=90)
    )
    assert manifest["images"] == {"format": "jpeg", "quality": 90}
    assert all(name.endswith((".jpg", ".json")) for name in manifest["sha256"])
    assert all(report.ok for report in check_data("eqben", root=tmp_path / "set"))


def test_failed_build_goes_on(tmp_path: Path) -> None:
    calls: list[str] = []
    sources = [make_source(i, calls) for i in range(4)]

    def fail() -> SourcePairs:
        raise KeyboardInterrupt

    broken = [*sources[:2], PairSource("video 2", "print 2", fail), sources[3]]
    out = tmp_path / "set"
    with pytest.raises(KeyboardInterrupt):
        write_pair_set(broken, out, settings(workers=1))
    assert not out.exists()
    # a file of a complete source is damaged meanwhile: it alone is made again
    damaged = next((tmp_path / ".set.build").glob("set/images/*/video_1*/0.png"))
    damaged.write_bytes(b"cut")
    calls.clear()
    manifest = write_pair_set(sources, out, settings(workers=1))
    assert "video 0" not in calls
    assert {"video 1", "video 2"} <= set(calls)
    write_pair_set([make_source(i) for i in range(4)], tmp_path / "other", settings())
    assert read_tree(out) == read_tree(tmp_path / "other")
    assert manifest["written"]["pairs"] == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "set"]


def test_other_recipe_begins_anew(tmp_path: Path) -> None:
    calls: list[str] = []
    sources = [make_source(0, calls)]

    def fail() -> SourcePairs:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pair_set(
            [*sources, PairSource("video 9", "", fail)], tmp_path / "set", settings(workers=1)
        )
    write_pair_set(sources, tmp_path / "set", settings(parameters={"blur": 5}))
    assert calls == ["video 0", "video 0"]


def test_two_builds_into_one_folder(tmp_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()
    inner = make_source(0)

    def wait() -> SourcePairs:
        begun.set()
        assert end.wait(30)
        return inner.make()

    out = tmp_path / "set"
    slow = [PairSource("video 0", "print 0", wait)]
    thread = threading.Thread(target=write_pair_set, args=(slow, out, settings()))
    thread.start()
    try:
        assert begun.wait(30)
        with pytest.raises(InputError, match="another build"):
            write_pair_set([make_source(5)], out, settings())
    finally:
        end.set()
        thread.join()
    assert json.loads((out / "manifest.json").read_text())["written"]["pairs"] == 2


def test_existing_folder(tmp_path: Path) -> None:
    out = tmp_path / "set"
    write_pair_set([make_source(0)], out, settings())
    before = read_tree(out)
    with pytest.raises(InputError, match="not empty"):
        write_pair_set([make_source(1)], out, settings())
    assert read_tree(out) == before
    write_pair_set([make_source(1)], out, settings(), overwrite=True)
    assert read_tree(out) != before
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if "video_1" in str(path) and path.name == "1.png":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    out = tmp_path / "set"
    sources = [make_source(i) for i in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(InputError, match=r"No space left.*goes on"):
            write_pair_set(sources, out, settings(workers=1))
    assert not out.exists()
    assert not list(tmp_path.glob(".set.build/set/images/*/video_1*/*"))
    write_pair_set(sources, out, settings())
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_nothing_left(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no pair is left .*broken"):
        write_pair_set([make_source(0, pairs=0)], tmp_path / "set", settings())
    assert list(tmp_path.iterdir()) == []


def test_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sources = [make_source(i) for i in range(36)]
    sources[7] = replace(sources[7], counts={"frames": 8})
    sources.append(replace(make_source(40), ready=False))
    plan = plan_pair_set(sources, settings(counts={"annotated": 7}))
    assert (plan["sources"], plan["sampled"]) == (36, 12)
    assert plan["filters"] == {
        "annotated": 7, "frames": 188, "sharp frames": 108, "pairs": 72,
    }  # fmt: skip
    assert plan["expected"] == {"pairs": 72}
    assert list(tmp_path.iterdir()) == []


def test_file_names() -> None:
    hostile = ["../../etc/passwd", "..", "", "a/b", "a b", "con", "a" * 300, "vidéo", "a_b"]
    names = [file_name(text) for text in hostile]
    assert len(set(names)) == len(hostile)
    for name in names:
        assert "/" not in name
        assert not name.startswith(".")
        assert 0 < len(name) < 120
    assert file_name("RZDL9.mp4") == "RZDL9.mp4"


PROGRAM = """
import sys
from pathlib import Path
from tests.build.test_pair_sets import make_source, settings
from contrapose.build.minimal_pairs import PairSource
from contrapose.build.pair_sets import write_pair_set
import time
def hang():
    print("hanging", flush=True)
    time.sleep(600)
sources = [make_source(0), make_source(1), PairSource("video 2", "print 2", hang)]
write_pair_set(sources, Path(sys.argv[1]), settings(workers=1))
"""


def test_killed_build_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "set"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", PROGRAM, str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "hanging"
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    calls: list[str] = []
    write_pair_set([make_source(i, calls) for i in range(3)], out, settings())
    assert calls == ["video 2"]
    write_pair_set([make_source(i) for i in range(3)], tmp_path / "other", settings())
    assert read_tree(out) == read_tree(tmp_path / "other")
