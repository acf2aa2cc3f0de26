"""The index on disk: what is embedded when, what survives a kill, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from contrapose.errors import DamageWarning, InputError
from contrapose.files.atomic import TEMPORARY
from contrapose.models.function import FunctionModel
from contrapose.search.image_files import list_images
from contrapose.search.index import MANIFEST, find_index, lock_index, open_index
from contrapose.search.queries import SearchQuery
from contrapose.search.searcher import Searcher
from contrapose.search.writer import IndexReport, IndexRequest, build_index
from tests.conftest import ROOT
from tests.fakes import Tower, seen, vector
from tests.search.photos import ColorModel, write_photos


def build(
    folder: Path, model: Tower | ColorModel | None = None, out: Path | None = None
) -> IndexReport:
    return build_index(IndexRequest(folder, out), model or Tower())


def test_vectors_stand_beside_their_files(tmp_path: Path) -> None:
    report = build(write_photos(tmp_path))
    index = report.index
    assert (report.added, report.embedded, len(index)) == (5, 5, 5)
    assert isinstance(index.vectors, np.memmap)
    paths = [index.path(row) for row in range(5)]
    assert paths == sorted(paths)
    for row in range(5):
        with Image.open(index.file(row)) as image:
            expected = vector(seen(image.convert("RGB")))
        assert index.vectors[row].tolist() == pytest.approx(expected, abs=1e-6)
    assert index.find_path(paths[2]) == 2
    assert index.find_path("../other.png") is None
    assert {path.name for path in index.folder.iterdir()} == {
        MANIFEST, ".lock", "images-1.parquet", "vectors-1.npy",
    }  # fmt: skip


def test_only_what_changed_is_embedded_again(tmp_path: Path) -> None:
    folder = write_photos(tmp_path)
    first = build(folder).index
    model = Tower()
    again = build(folder, model)
    assert (again.unchanged, again.embedded, model.images) == (5, 0, [])
    assert again.index.number == first.number
    (folder / "more" / "red-0.png").unlink()
    (folder / "green-1.png").rename(folder / "renamed.png")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(folder / "white-3.png")
    Image.new("RGB", (8, 8), (9, 9, 9)).save(folder / "new.png")
    os.utime(folder / "more" / "blue-2.png", ns=(1, 1))  # only its time changed
    changed = build(folder, model)
    assert (changed.added, changed.changed, changed.deleted) == (2, 1, 2)
    assert (changed.unchanged, changed.embedded) == (2, 2)
    assert sorted(model.images) == ["(1, 2, 3)", "(9, 9, 9)"]
    index = changed.index
    fresh = build(folder, Tower(), tmp_path / "fresh").index
    assert [index.path(i) for i in range(5)] == [fresh.path(i) for i in range(5)]
    assert index.vectors.tolist() == fresh.vectors.tolist()
    assert len(list(index.folder.glob("vectors-*.npy"))) == 1


def test_many_shards_are_one_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_photos(tmp_path / "photos", 23)
    plain = build(folder, out=tmp_path / "plain").index
    monkeypatch.setattr("contrapose.search.writer.SHARD", 3)
    calls: list[tuple[int, int]] = []
    request = IndexRequest(
        folder, tmp_path / "shards", progress=lambda _, done, total: calls.append((done, total))
    )
    shards = build_index(request, Tower()).index
    assert shards.vectors.tolist() == plain.vectors.tolist()
    assert calls[-1] == (23, 23)
    assert not (shards.folder / "pending").exists()


def test_unreadable_images_are_listed_and_tried_again(tmp_path: Path) -> None:
    folder = write_photos(tmp_path)
    (folder / "broken.png").write_bytes(b"no image")
    (folder / "notes.md").write_text("not an image")
    (folder / ".hidden.png").write_bytes(b"no image")
    report = build(folder)
    assert len(report.index) == 5
    assert list(report.index.skipped) == ["broken.png"]
    assert "image" in report.index.skipped["broken.png"]
    Image.new("RGB", (8, 8), (5, 5, 5)).save(folder / "broken.png")
    mended = build(folder)
    assert mended.index.skipped == {}
    assert mended.added == 1


def test_links_do_not_lead_outside(tmp_path: Path) -> None:
    folder, outside = write_photos(tmp_path / "photos"), write_photos(tmp_path / "outside")
    (folder / "link.png").symlink_to(outside / "green-1.png")
    (folder / "linked").symlink_to(outside)
    (folder / "inner.png").symlink_to(folder / "green-1.png")
    _, files, skipped = list_images(folder)
    assert "inner.png" in [file.name for file in files]
    assert len(files) == 6
    assert "outside" in skipped["link.png"]


def test_links_to_themselves_are_skipped(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    (folder / "loop.png").symlink_to("loop.png")
    report = build(folder)
    assert len(report.index) == 5
    assert "cannot be read" in report.index.skipped["loop.png"]
    (folder / "list.txt").symlink_to("list.txt")
    with pytest.raises(InputError):
        list_images(folder / "list.txt")


def test_a_list_of_images(tmp_path: Path) -> None:
    folder = write_photos(tmp_path)
    listed = [folder / "green-1.png", folder / "more" / "red-0.png"]
    report = build_index(IndexRequest(listed, tmp_path / "index"), Tower())
    assert [report.index.path(row) for row in range(2)] == ["green-1.png", "more/red-0.png"]
    names = tmp_path / "list.txt"
    names.write_text("more/red-0.png\n\ngreen-1.png\n")
    same = build_index(IndexRequest(names, tmp_path / "index"), Tower())
    assert same.unchanged == 2
    names.write_text("../etc/passwd.png\n")
    with pytest.raises(InputError, match=r"line 1: .*climbs out"):
        build_index(IndexRequest(names, tmp_path / "other"), Tower())
    with pytest.raises(InputError, match="out"):
        build_index(IndexRequest(listed), Tower())


def test_a_run_that_fails_is_resumed(tmp_path: Path) -> None:
    folder = write_photos(tmp_path, 23)
    with pytest.raises(KeyboardInterrupt):
        build(folder, Tower(after=3))
    with pytest.raises(InputError, match="no index"):
        find_index(folder)
    model = Tower()
    report = build(folder, model)
    assert len(report.index) == 23
    assert len(model.images) == 23 - 3 * 4


KILLED = """
import os, sys
from pathlib import Path
from contrapose.engine import part_writer
from contrapose.search.writer import IndexRequest, build_index
from tests.search.photos import ColorModel
part_writer.WRITE_INTERVAL = part_writer.MAX_WRITE_INTERVAL = 0.0
class Killed(ColorModel):
    def embed_images(self, images):
        if self.images >= 12:
            os._exit(9)
        return super().embed_images(images)
build_index(IndexRequest(Path(sys.argv[1])), Killed())
"""


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    folder = write_photos(tmp_path, 23)
    ended = subprocess.run(  # noqa: S603 - the program above
        [sys.executable, "-c", KILLED, str(folder)],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == 9
    model = ColorModel()
    assert len(build(folder, model).index) == 23
    assert model.images == 23 - 12


def test_two_writers_at_once(tmp_path: Path) -> None:
    folder = write_photos(tmp_path)
    index = build(folder).index
    with lock_index(index.folder), pytest.raises(InputError, match="another process"):
        build(folder)
    assert build(folder).unchanged == 5


def test_what_cannot_be_indexed(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no image"):
        build(empty)
    (empty / "a.png").write_bytes(b"no image")
    with pytest.raises(InputError, match="not one of 1"):
        build(empty)
    assert [path.name for path in empty.iterdir()] == ["a.png"]
    with pytest.raises(InputError, match="folder"):
        build(tmp_path / "absent")
    folder = write_photos(tmp_path / "photos")
    build(folder, out=tmp_path / "index")
    with pytest.raises(InputError, match=r"tower.*another"):
        build(folder, Tower(name="other", fingerprint="other-1"), tmp_path / "index")
    with pytest.raises(InputError, match="is an index of"):
        build(write_photos(tmp_path / "others"), out=tmp_path / "index")
    with pytest.raises(InputError, match="dual encoder"):
        build_index(IndexRequest(folder), FunctionModel(lambda image, text: 0.0))


def test_an_index_is_found_by_its_folder_or_model(tmp_path: Path) -> None:
    folder = write_photos(tmp_path)
    index = build(folder).index
    assert find_index(folder) == find_index(index.folder) == index.folder
    build(folder, Tower(name="hf:other/model", fingerprint="2"))
    with pytest.raises(InputError, match="indexes of"):
        find_index(folder)
    assert find_index(folder, Tower()) == index.folder
    assert open_index(find_index(folder, Tower(fingerprint="2"))).model == "hf:other/model"
    with pytest.raises(InputError, match="indexes of"):
        find_index(folder, Tower(fingerprint="3"))


def test_a_moved_folder_keeps_its_index(tmp_path: Path) -> None:
    build(write_photos(tmp_path / "photos"))
    moved = (tmp_path / "photos").rename(tmp_path / "moved")
    index = open_index(find_index(moved))
    assert index.file(0).is_file()
    assert index.root == moved


@pytest.mark.parametrize("damage", ["vectors", "table", "manifest", "version", "path"])
def test_a_damaged_index_is_refused(tmp_path: Path, damage: str) -> None:
    index = build(write_photos(tmp_path)).index
    manifest = json.loads((index.folder / MANIFEST).read_text())
    if damage == "vectors":
        np.save(index.folder / "vectors-1.npy", np.zeros((2, 6), np.float32))
    elif damage == "table":
        (index.folder / "images-1.parquet").write_bytes(b"PAR1")
    else:
        changed = {"manifest": {"vectors": 3}, "version": {"version": 99}}.get(
            damage, {"images": "../../../secret.parquet"}
        )
        (index.folder / MANIFEST).write_text(json.dumps({**manifest, **changed}))
    with pytest.raises(InputError, match="index"):
        open_index(index.folder)


def flip(path: Path, at: int) -> None:
    """Flip a bit of a file, its time of change kept."""
    content, status = bytearray(path.read_bytes()), path.stat()
    content[at] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_flipped_bit_in_a_vector_is_seen_and_only_its_block_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("index", "writer"):
        monkeypatch.setattr(f"contrapose.search.{module}.BLOCK_ROWS", 4)
    folder = write_photos(tmp_path, 10)
    index = build(folder, ColorModel()).index
    vectors, file = index.vectors.tolist(), index.folder / "vectors-1.npy"
    index.check()
    assert len(index.checksums) == 3
    flip(file, 128 + 5 * 4 * 4)  # a number of row 5
    damaged = open_index(index.folder)  # reads no vector
    damaged.check(np.array([0, 9]))
    assert damaged.find_damage().tolist() == [4, 5, 6, 7]
    searcher = Searcher(damaged, ColorModel())
    with pytest.raises(InputError, match=r"damaged.*4 images"):
        searcher.search(SearchQuery(text="red"), 3)
    model = ColorModel()
    with pytest.warns(DamageWarning, match="4 of 10 images"):
        report = build(folder, model)
    assert (model.images, report.embedded, report.unchanged, report.added) == (4, 4, 10, 0)
    assert report.index.vectors.tolist() == vectors
    report.index.check()
    assert build(folder, ColorModel()).embedded == 0


@pytest.mark.parametrize("file", ["images-1.parquet", MANIFEST])
def test_a_flipped_bit_in_the_table_or_the_manifest_is_refused(file: str, tmp_path: Path) -> None:
    index = build(write_photos(tmp_path)).index
    content = (index.folder / file).read_bytes()
    middle = content.index(b'"tower') + 3 if file == MANIFEST else len(content) // 3
    flip(index.folder / file, middle)
    with pytest.raises(InputError, match="damaged"):
        open_index(index.folder)


@pytest.mark.parametrize("step", ["pending", "vectors", "table"])
def test_a_full_disk_names_the_index(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = {"pending": "engine.storage.write_bytes", "vectors": "search.writer.sync_file",
              "table": "search.index.write_bytes"}[step]  # fmt: skip
    folder = write_photos(tmp_path / "photos")
    with monkeypatch.context() as patched:
        patched.setattr(f"contrapose.{target}", full)
        with pytest.raises(InputError, match="No space left") as raised:
            build(folder, out=tmp_path / "index")
    assert str(raised.value).startswith(f"{tmp_path / 'index'}: ")
    assert "cache" not in str(raised.value)
    left = {path.name for path in (tmp_path / "index").iterdir()}
    assert left <= {".lock", "pending"}
    assert len(build(folder, out=tmp_path / "index").index) == 5


@pytest.mark.parametrize("name", [".vectors.npy", "pending", ".lock", "vectors-2.npy", ""])
def test_nothing_is_written_through_a_symbolic_link(name: str, tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    index = build(folder).index
    victim = tmp_path / "victim"
    if name in ("pending", ""):
        victim.mkdir()
    else:
        victim.write_text("precious")
    if name:
        (index.folder / name).unlink(missing_ok=True)
    else:
        shutil.rmtree(index.folder)
    (index.folder / name).symlink_to(victim)
    shutil.copy(next(folder.glob("*.png")), folder / "again.png")
    with suppress(InputError):
        build(folder)
    if victim.is_dir():
        assert list(victim.iterdir()) == []
    else:
        assert victim.read_text() == "precious"


def test_leftovers_of_a_run_that_was_killed_are_removed_at_once(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    index = build(folder).index
    left = index.folder / f".new.0123456789abcdef{TEMPORARY}"
    left.mkdir()
    (left / "vectors.npy").write_bytes(bytes(100))
    (index.folder / "vectors-2.npy").write_bytes(bytes(100))
    build(folder)
    assert {path.name for path in index.folder.iterdir()} == {
        ".lock", MANIFEST, "images-1.parquet", "vectors-1.npy",
    }  # fmt: skip


def test_an_index_outlives_old_files_that_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_photos(tmp_path)
    build(folder)
    (folder / "white-3.png").unlink()
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name.endswith(("-1.npy", "-1.parquet")):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        index = build(folder).index
    assert (index.number, len(index)) == (2, 4)
    assert len(open_index(index.folder)) == 4


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    out = tmp_path / "index"
    out.mkdir()
    (out / "my-table.parquet").write_text("mine")
    build(write_photos(tmp_path / "photos"), out=out)
    assert (out / "my-table.parquet").read_text() == "mine"


@pytest.mark.parametrize(
    "error",
    [pa.ArrowMemoryError("malloc failed"), OSError(errno.EMFILE, "Too many open files"),
     pa.ArrowException("Failed to launch worker thread: Resource temporarily unavailable")],
)  # fmt: skip
def test_a_machine_that_is_short_of_something_damages_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    index = build(write_photos(tmp_path)).index
    monkeypatch.setattr("pyarrow.parquet.read_table", fail)
    with pytest.raises(InputError, match="ran out") as raised:
        open_index(index.folder)
    assert "delete" not in str(raised.value)
