"""Builds of edit pairs: counts, resuming, failures, and what is written."""

from __future__ import annotations

import errno
import hashlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.build.edits.builder import is_blank
from contrapose.data.benchmarks import eqben
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.models.endpoint import EndpointError

Draw = Callable[[str, int], Any]


def noise(text: str, seed: int) -> Image.Image:
    """Image that a prompt and a seed decide."""
    digest = hashlib.blake2b(f"{text}{seed}".encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(digest, "big"))
    return Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))


class Generator:
    """Pair generator that counts its calls, and may do something else in some of them."""

    lists = "eqben"

    def __init__(self, act: Callable[[int], Any] = lambda number: None, workers: int = 1):
        self.name, self.workers, self.act = "counted", workers, act
        self.ids: list[str] = []

    def generate(self, prompt: Any, size: int) -> Any:
        self.ids.append(prompt.id)
        other = self.act(len(self.ids))
        if other is not None:
            return other
        return noise(prompt.captions[0], prompt.seed), noise(prompt.captions[1], prompt.seed)


def build(generator: Any, out: Path, **options: Any) -> dict[str, Any]:
    return cp.build_edits(generator, out=out, cache=False, **{"pairs": 9, **options})


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_build_is_read_as_eqben_and_says_how_it_came_about(tmp_path: Path) -> None:
    def draw(prompt: str, seed: int) -> Image.Image:
        return noise(prompt, seed)

    manifest = build(draw, tmp_path / "out", prompt="{} In oil.", seed=3)
    assert manifest["filters"] == {
        "planned": 9, "generated": 9, "not blank": 9, "images differ": 9,
    }  # fmt: skip
    assert manifest["parameters"]["generator"] == "draw"
    assert manifest["read_with"] == "eqben"
    assert manifest["audit"]["verdict"]
    rows = json.loads((tmp_path / "out/eqbensd.json").read_text())
    for row in rows:
        tags = row["tags"]
        assert tags["prompt0"] == f"{row['caption0']} In oil."
        first, second = (
            Image.open(tmp_path / "out/images" / row[name]) for name in ("image0", "image1")
        )
        for image, prompt in ((first, tags["prompt0"]), (second, tags["prompt1"])):
            assert np.array_equal(np.asarray(image), np.asarray(noise(prompt, int(tags["seed"]))))
    examples = eqben.read(tmp_path / "out", StrictProblems())
    assert [list(one.texts) for one in examples] == [
        [row["caption0"], row["caption1"]] for row in rows
    ]
    assert {row["tags"]["kind"] for row in rows} == {"object", "scene", "attribute"}


def test_workers_change_nothing(tmp_path: Path) -> None:
    for workers in (1, 4):
        build(Generator(workers=workers), tmp_path / str(workers))
    assert contents(tmp_path / "1") == contents(tmp_path / "4")


def test_a_generator_is_not_called_by_more_threads_than_it_allows(tmp_path: Path) -> None:
    inside: set[int] = set()
    most = []
    met = threading.Event()

    def act(number: int) -> None:
        inside.add(number)
        time.sleep(0.01)
        most.append(len(inside))
        inside.discard(number)

    def meet(number: int) -> None:
        inside.add(number)
        if len(inside) > 1:
            met.set()
        assert met.wait(60)  # the first one waits until another is there
        inside.discard(number)

    build(Generator(act), tmp_path / "one", workers=4)
    assert max(most) == 1
    build(Generator(meet, workers=4), tmp_path / "four", workers=4)
    assert met.is_set()


def test_a_stopped_build_goes_on(tmp_path: Path) -> None:
    def stop(number: int) -> None:
        if number == 6:
            raise KeyboardInterrupt

    first, rest = Generator(stop), Generator()
    with pytest.raises(KeyboardInterrupt):
        build(first, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    build(rest, tmp_path / "out")
    # Whatever was finished is not made again; one more may have been begun when the stop came.
    stopped = first.ids[5]
    assert set(first.ids) & set(rest.ids) == {stopped}
    assert len(set(first.ids) | set(rest.ids)) == 9
    build(Generator(), tmp_path / "again")
    assert contents(tmp_path / "out") == contents(tmp_path / "again")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "again"}


def test_a_server_that_goes_down_loses_nothing(tmp_path: Path) -> None:
    def down(number: int) -> None:
        if number == 4:
            raise EndpointError("the server is down.")

    first, rest = Generator(down), Generator()
    with pytest.raises(EndpointError, match="down"):
        build(first, tmp_path / "out")
    build(rest, tmp_path / "out")
    assert set(first.ids) & set(rest.ids) == {first.ids[3]}
    assert len(set(first.ids) | set(rest.ids)) == 9


def test_pairs_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    blank, other = Image.new("RGB", (16, 16), "black"), noise("x", 1)
    acts = {2: (blank, other), 3: (other, other), 5: (other, noise("y", 2).resize((20, 20)))}
    assert is_blank(blank)
    assert not is_blank(other)
    manifest = build(Generator(acts.get), tmp_path / "out")
    assert manifest["filters"] == {
        "planned": 9, "generated": 8, "not blank": 7, "images differ": 6,
    }  # fmt: skip
    (problem,) = manifest["unreadable"]
    assert "sizes" in problem["reason"]
    assert manifest["written"]["pairs"] == 6


def test_failures_in_a_row_end_the_build_and_are_tried_again(tmp_path: Path) -> None:
    def broken(prompt: str, seed: int) -> Image.Image:
        if len(calls) >= 8:
            raise RuntimeError("out of order")
        calls.append(prompt)
        return noise(prompt, seed)

    calls: list[str] = []
    with pytest.raises(InputError, match=r"10 pairs in a row.*out of order"):
        build(broken, tmp_path / "out", pairs=30)
    assert not (tmp_path / "out").exists()
    calls.clear()
    # The same function works again: only the four finished pairs are not drawn anew.
    with pytest.raises(InputError, match="in a row"):
        build(broken, tmp_path / "out", pairs=30)
    assert len(set(calls)) == 8


def test_another_function_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    def make(shade: int) -> Draw:
        if shade:

            def draw(prompt: str, seed: int) -> Image.Image:
                calls.append(prompt)
                return noise(prompt + "!", seed)

        else:

            def draw(prompt: str, seed: int) -> Image.Image:
                if len(calls) == 8:
                    raise KeyboardInterrupt
                calls.append(prompt)
                return noise(prompt, seed)

        return draw

    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        build(make(0), tmp_path / "out")
    calls.clear()
    build(make(1), tmp_path / "out")
    assert len(calls) == 18


def test_another_margin_needs_no_new_images(tmp_path: Path) -> None:
    def model(image: Image.Image, caption: str) -> float:
        return float(np.asarray(image).mean()) * (1 + len(caption))

    generator = Generator()
    with pytest.raises(InputError, match=r"no pair is left.*preferred: 0"):
        build(generator, tmp_path / "out", filter_by=model, margin=1e9)
    manifest = build(generator, tmp_path / "out", filter_by=model, margin=-1e9, min_score=-1e9)
    assert len(generator.ids) == 9
    assert manifest["filters"]["own caption preferred"] == 9
    assert manifest["parameters"]["filter"]["margin"] == -1e9
    row = json.loads((tmp_path / "out/eqbensd.json").read_text())[0]
    assert float(row["tags"]["score"]) > 0


def test_images_of_dropped_pairs_are_not_written(tmp_path: Path) -> None:
    def model(image: Image.Image, caption: str) -> float:
        text = f"{np.asarray(image)[0, 0, 0]}{caption}".encode()
        return float(hashlib.blake2b(text, digest_size=1).digest()[0])

    manifest = build(Generator(), tmp_path / "out", filter_by=model, pairs=30)
    kept = manifest["filters"]["own caption preferred"]
    assert 0 < kept < 30
    assert len(list((tmp_path / "out/images").rglob("*.png"))) == 2 * kept
    assert manifest["written"]["pairs"] == kept


def test_two_builds_into_one_folder(tmp_path: Path) -> None:
    second: list[str] = []

    def meanwhile(number: int) -> None:
        if number == 3:
            with pytest.raises(InputError) as caught:
                build(Generator(), tmp_path / "out")
            second.append(str(caught.value))

    build(Generator(meanwhile), tmp_path / "out")
    assert "another build" in second[0]
    before = contents(tmp_path / "out")
    with pytest.raises(InputError, match="overwrite"):
        build(Generator(), tmp_path / "out", seed=4)
    assert contents(tmp_path / "out") == before
    build(Generator(), tmp_path / "out", seed=4, overwrite=True)
    assert contents(tmp_path / "out") != before


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name.endswith("_1.png") and "00004" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="No space left"):
        build(Generator(), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    rest = Generator()
    build(rest, tmp_path / "out")
    assert 0 < len(rest.ids) < 9


def test_hostile_lists(tmp_path: Path) -> None:
    lists = tmp_path / "lists.json"
    words = ["<img src=x>", "../../x", "a; rm -rf /", "{object}", "Ünï😀"]
    rule = {"kind": "object", "changes": "object", "templates": ["{object}"]}
    lists.write_text(json.dumps({"rules": [{**rule, "groups": [{"object": words}]}]}))
    manifest = build(Generator(), tmp_path / "out", lists=lists, pairs=10)
    assert manifest["written"]["pairs"] == 10
    names = {path.name for path in (tmp_path / "out").rglob("*.png")}
    assert all(name.startswith("object-0") for name in names)
    (report,) = cp.check_data("eqben", root=tmp_path / "out")
    assert report.ok


def test_a_dry_run_generates_nothing(tmp_path: Path) -> None:
    generator = Generator()
    plan = build(generator, tmp_path / "out", dry_run=True, pairs=200)
    assert generator.ids == []
    assert list(tmp_path.iterdir()) == []
    assert plan["expected"]["pairs"] == 200
    assert plan["expected"]["scene"] == 67
    assert plan["distinct"]["scene"] == 57
    assert plan["repeated"] == 10
    assert len(plan["shown"]) == 6


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"pairs": 0}, "pairs"), ({"size": 4}, "size"), ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"), ({"kinds": "colour"}, "colour"), ({"prompt": "x"}, "prompt"),
        ({"lists": "nowhere.json"}, "exist"), ({"margin": 1.0}, "filter"),
        ({"form": "tuple"}, "form"), ({"image_format": "gif"}, "gif"),
    ],
)  # fmt: skip
def test_options_are_checked_before_anything_is_made(
    tmp_path: Path, options: dict[str, Any], word: str
) -> None:
    generator = Generator()
    with pytest.raises(InputError, match=word):
        build(generator, tmp_path / "out", **options)
    assert generator.ids == []
    assert list(tmp_path.iterdir()) == []
