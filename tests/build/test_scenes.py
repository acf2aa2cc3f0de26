from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.build.scenes import SceneBuild, plan_scenes, write_scenes
from contrapose.data import Benchmark, find_benchmark
from contrapose.errors import InputError, MissingExtraError
from contrapose.files import StrictProblems, open_work_folder
from contrapose.world import blender
from contrapose.world.engines import Drawing, RayTracer
from contrapose.world.scene import Scene

SMALL = SceneBuild(parts=("location", "add"), examples=3, size=16, masks=True)


def listing(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class CountedTracer:
    """Count the scenes that are rendered, and stop after some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: int | None = None):
        self.drawn = 0
        draw = RayTracer.draw_scenes

        def count(
            tracer: RayTracer, scenes: Sequence[Scene], size: int, *, masks: bool
        ) -> list[Drawing]:
            if stop is not None and self.drawn >= stop:
                raise KeyboardInterrupt
            self.drawn += len(scenes)
            return draw(tracer, scenes, size, masks=masks)

        monkeypatch.setattr(RayTracer, "draw_scenes", count)
        monkeypatch.setattr(RayTracer, "batch", 2)


def stop_build(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt a build after two batches of two images."""
    with monkeypatch.context() as patch:
        CountedTracer(patch, stop=4)
        with pytest.raises(KeyboardInterrupt):
            write_scenes(SMALL, out)


def test_a_stopped_build_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_scenes(SMALL, tmp_path / "straight")
    stop_build(tmp_path / "out", monkeypatch)
    assert not (tmp_path / "out").exists()
    with monkeypatch.context() as patch:
        tracer = CountedTracer(patch)
        write_scenes(SMALL, tmp_path / "out")
        assert tracer.drawn == 9 - 4
    assert listing(tmp_path / "out") == listing(tmp_path / "straight")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "straight"]


def test_a_file_that_was_damaged_is_rendered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_build(tmp_path / "out", monkeypatch)
    (tmp_path / ".out.build/set/location/images/kubric_location/0_0.png").write_bytes(b"")
    tracer = CountedTracer(monkeypatch)
    write_scenes(SMALL, tmp_path / "out")
    assert tracer.drawn == 9 - 2


def test_other_settings_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_build(tmp_path / "out", monkeypatch)
    tracer = CountedTracer(monkeypatch)
    manifest = write_scenes(replace(SMALL, seed=1), tmp_path / "out")
    assert tracer.drawn == 9
    assert manifest["parameters"]["seed"] == 1


def test_of_two_builds_into_one_folder_the_second_is_refused(tmp_path: Path) -> None:
    with (
        open_work_folder(tmp_path / "out", {}),
        pytest.raises(InputError, match="another build"),
    ):
        write_scenes(SMALL, tmp_path / "out")


def test_the_manifest_names_engine_and_audit(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    manifest = write_scenes(
        replace(SMALL, parts=("location", "add", "gallery"), examples=40, size=8),
        tmp_path / "out",
        progress=lambda *words: seen.append(words),
    )
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["engine"] == {"name": "raytracer", "version": "1"}
    flagged = manifest["audit"]["flagged"]
    assert "add" in flagged  # the wrong caption is the longer one
    assert "location" not in flagged
    assert ("location", 80, 80) in seen
    assert ("gallery", 40, 40) in seen


def test_a_part_without_captions_to_choose_from_has_no_audit(tmp_path: Path) -> None:
    manifest = write_scenes(replace(SMALL, parts=("gallery",)), tmp_path / "out")
    assert manifest["audit"] is None


def test_a_plan_has_the_counts_of_the_build(tmp_path: Path) -> None:
    build = replace(SMALL, parts=("location", "edits"))
    plan, manifest = plan_scenes(build), write_scenes(build, tmp_path / "out")
    for name, part in manifest["parts"].items():
        assert {**part, "sampled": 3} == plan["parts"][name]
    many = plan_scenes(replace(build, examples=400))["parts"]
    assert (many["location"]["images"], many["edits"]["images"]) == (800, 800)
    assert many["location"]["filters"]["scenes drawn"] > 400


def test_a_missing_engine_is_said_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blender, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="bpy"):
        write_scenes(replace(SMALL, engine="blender"), tmp_path / "out")
    with pytest.raises(MissingExtraError, match="bpy"):
        plan_scenes(replace(SMALL, engine="blender"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(find_spec("bpy") is None, reason="bpy is not installed")
def test_blender_writes_the_same_scenes_and_masks(tmp_path: Path) -> None:
    build = SceneBuild(parts=("counting",), examples=1, size=48, masks=True)
    write_scenes(build, tmp_path / "traced")
    manifest = write_scenes(replace(build, engine="blender"), tmp_path / "rendered")
    assert manifest["engine"]["name"] == "blender"
    traced, rendered = listing(tmp_path / "traced"), listing(tmp_path / "rendered")
    assert traced.keys() == rendered.keys()
    for name in ("counting/scenes.jsonl", "counting/kubric_counting.json"):
        assert traced[name] == rendered[name]
    for name in traced:
        if "/masks/" in name:
            one, other = (read_png(tmp_path / f / name) for f in ("traced", "rendered"))
            assert np.mean(one == other) > 0.99
    benchmark = find_benchmark("eqben")
    assert isinstance(benchmark, Benchmark)
    assert len(list(benchmark.read(tmp_path / "rendered/counting", StrictProblems()))) == 1  # type: ignore[arg-type]


def read_png(path: Path) -> np.ndarray[Any, Any]:
    with Image.open(path) as image:
        return np.asarray(image)
