"""Fetched files compared with their manifest: flipped bytes, new times, members of archives."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from contrapose.data import integrity
from contrapose.data.cached_data import DataSource, data_status, read_manifest
from contrapose.data.downloads import RemoteFile
from contrapose.data.fetch import fetch_named_images, fetch_source, find_fetched, open_source
from contrapose.data.integrity import DataVerification, names_of, verify_source
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.files import download as downloader
from tests.data.test_fetch import ANNOTATIONS, NAMES, make_image, make_source
from tests.web_server import WebServer, run_web_server

IMAGE = f"val2017/{NAMES[1]}"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WebServer]:
    monkeypatch.setattr(downloader, "BACKOFF", 0.0)
    monkeypatch.setenv("CONTRAPOSE_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with run_web_server() as web:
        web.files["/data/swap_obj.json"] = ANNOTATIONS
        web.files |= {f"/val2017/{name}": make_image(i) for i, name in enumerate(NAMES)}
        yield web


def archive_source(web: WebServer) -> DataSource:
    """The same files in an archive, unpacked below `all`."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("swap_obj.json", ANNOTATIONS)
        for i, name in enumerate(NAMES):
            archive.writestr(f"val2017/{name}", make_image(i))
    web.files["/all.zip"] = stream.getvalue()
    file = RemoteFile("", f"{web.url}/all.zip", unpack="zip")
    return make_source(web, files=(file,), images=())


def flip(file: Path, *, keep_time: bool = False) -> None:
    """Change one byte; the size stays, and the time too where a disk did it."""
    before = file.stat().st_mtime_ns
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    later = before if keep_time else before + 10**9
    os.utime(file, ns=(later, later))


def verify(source: DataSource) -> DataVerification:
    return verify_source(source, announce=lambda message: None)


def read_all(source: DataSource, *, offline: bool = False) -> None:
    """Read a benchmark as a run does: its annotations, then its images."""
    folder = open_source(source, offline=offline)
    examples = source.parts[0].read(folder, StrictProblems())
    fetch_named_images(source, [list(examples)], complete=True, offline=offline)  # type: ignore[arg-type]


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are hashed to compare them."""
    names: list[str] = []

    def digest(path: Path) -> str:
        names.append(path.name)
        return downloader.sha256_of(path)

    monkeypatch.setattr(integrity, "sha256_of", digest)
    return names


@pytest.mark.parametrize("path", ["swap_obj.json", IMAGE])
@pytest.mark.parametrize("archived", [False, True])
def test_flipped_byte_is_named_and_only_its_file_is_fetched_again(
    web: WebServer, path: str, archived: bool
) -> None:
    source = archive_source(web) if archived else make_source(web)
    folder = fetch_source(source).folder
    report = verify(source)
    assert (report.files, report.changed) == (4, {})
    assert report.size == sum(f.stat().st_size for f in folder.rglob("*.j*") if f.parent != folder
                              or f.name == "swap_obj.json")  # fmt: skip
    flip(folder / path, keep_time=True)
    assert data_status(source).state == "complete"  # by sizes
    assert list(verify(source).changed) == [path]
    assert "SHA-256" in verify(source).changed[path]
    with pytest.raises(InputError, match="nothing may be fetched"):
        fetch_source(source, offline=True)
    assert (folder / path).exists()
    before = len(web.requests)
    assert fetch_source(source).fetched == 1
    wanted = "all.zip" if archived else path.rpartition("/")[2]
    assert {asked.rpartition("/")[2] for asked in web.paths()[before:]} == {wanted}
    assert verify(source).changed == {}


@pytest.mark.parametrize("path", ["swap_obj.json", IMAGE])
@pytest.mark.parametrize("archived", [False, True])
def test_run_sees_a_change_by_its_time(
    web: WebServer, path: str, archived: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    source = archive_source(web) if archived else make_source(web)
    folder = fetch_source(source).folder
    good = (folder / path).read_bytes()
    flip(folder / path)
    capsys.readouterr()
    with pytest.raises(InputError, match="not complete"):
        read_all(source, offline=True)
    said = capsys.readouterr().err
    assert "1 file has another time" in said
    assert str(folder / path) in said
    read_all(source)
    assert (folder / path).read_bytes() == good
    capsys.readouterr()
    read_all(source, offline=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("archived", [False, True])
def test_run_hashes_only_what_has_another_time_and_only_once(
    web: WebServer, hashed: list[str], archived: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    source = archive_source(web) if archived else make_source(web)
    folder = fetch_source(source).folder
    read_all(source, offline=True)
    assert hashed == []
    for path in ("swap_obj.json", IMAGE):
        os.utime(folder / path, ns=(10**18, 10**18))
    capsys.readouterr()
    read_all(source, offline=True)
    assert hashed == ["swap_obj.json", NAMES[1]]
    assert capsys.readouterr().err.count("comparing digests") == 2
    read_all(source, offline=True)
    assert len(hashed) == 2


def test_size_decides_without_a_digest(web: WebServer, hashed: list[str]) -> None:
    source = make_source(web)
    folder = fetch_source(source).folder
    (folder / IMAGE).write_bytes(b"short")
    (folder / "swap_obj.json").unlink()
    del hashed[:]
    assert find_fetched(source) is None
    changed = verify(source).changed
    assert list(changed) == ["swap_obj.json", IMAGE]
    assert "missing" in changed["swap_obj.json"]
    assert "5 bytes" in changed[IMAGE]
    assert sorted(hashed) == [NAMES[0], NAMES[2]]


def test_changed_image_that_its_host_lost_is_not_used(web: WebServer) -> None:
    source = make_source(web)
    folder = fetch_source(source).folder
    del web.files[f"/{IMAGE}"]
    flip(folder / IMAGE)
    read_all(source)
    assert not (folder / IMAGE).exists()
    assert list(read_manifest(folder).missing) == [IMAGE]


def test_file_that_nothing_names_any_more_is_forgotten(web: WebServer) -> None:
    source = make_source(web)
    folder = fetch_source(source).folder
    web.files["/data/swap_obj.json"] = json.dumps(
        {"0": {"filename": NAMES[0], "caption": "a", "negative_caption": "b"}}
    ).encode()
    file = RemoteFile("swap_obj.json", f"{web.url}/data/swap_obj.json")
    flip(folder / "swap_obj.json")
    flip(folder / IMAGE)
    fetch_source(make_source(web, files=(file,)))
    assert not (folder / IMAGE).exists()
    assert IMAGE not in read_manifest(folder).files


def test_verification_of_nothing(web: WebServer) -> None:
    source = make_source(web)
    with pytest.raises(InputError, match="data fetch"):
        verify(source)
    folder = fetch_source(source).folder
    (folder / "manifest.json").write_text("{")
    with pytest.raises(InputError, match=r"manifest\.json"):
        verify(source)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("members", value) for value in (1, {"../../x": [1, "a", 1]}, {"x": [1]}, None)),
        *(("members", {"x": value}) for value in (["1", "a", 1], [1, None, 1], [-1, "a", 1])),
        ("unpacked", [[1]]), ("unpacked", -1), ("entries", [1]), ("entries", ["../../x"]),
        ("date", 3), ("sha256", None), ("size", "9"), ("into", "../.."),
    ],
)  # fmt: skip
def test_hostile_manifests(web: WebServer, key: str, value: object) -> None:
    folder = fetch_source(archive_source(web)).folder
    content = json.loads((folder / "manifest.json").read_text())
    content["files"]["all.zip"][key] = value
    (folder / "manifest.json").write_text(json.dumps(content))
    assert read_manifest(folder).files == {}


def test_names_below_a_folder(tmp_path: Path) -> None:
    files = [tmp_path / "a/b.jpg", tmp_path.parent / "c.jpg", None, Path(f"{tmp_path}x/d.jpg")]
    assert names_of(tmp_path, files) == {"a/b.jpg"}
