import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrapose.errors import ContraposeError, InputError
from contrapose.files import download as module
from contrapose.files.download import Expectation, download_file, sha256_of
from contrapose.files.web import DownloadError
from tests.web_server import WebServer, run_web_server

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()
KNOWN = Expectation(len(CONTENT), SHA256)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setattr(module, "BACKOFF", 0.0)
    with run_web_server() as web:
        web.files["/a.bin"] = CONTENT
        yield web


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_written_with_its_digest_and_progress(web: WebServer, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = tmp_path / "new/a.bin"
    fetched = download_file(f"{web.url}/a.bin", path, progress=lambda *some: seen.append(some))
    assert (fetched.size, fetched.sha256) == (len(CONTENT), SHA256)
    assert sha256_of(tmp_path / "new/a.bin") == SHA256
    assert leftovers(tmp_path / "new") == ["a.bin"]
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("fault", ["chunked", "slow"])
def test_other_transfers(web: WebServer, tmp_path: Path, fault: str) -> None:
    web.always["/a.bin"] = fault
    assert download_file(f"{web.url}/a.bin", tmp_path / "a.bin").sha256 == SHA256


def test_broken_connection_goes_on_where_it_stopped(web: WebServer, tmp_path: Path) -> None:
    web.faults["/a.bin"] = ["drop 3000", "status 503", "drop 100"]
    assert download_file(f"{web.url}/a.bin", tmp_path / "a.bin").sha256 == SHA256
    ranges = [headers.get("Range") for _, _, headers in web.requests]
    assert ranges == [None, "bytes=3000-", "bytes=3000-", "bytes=3100-"]
    assert all("If-Range" in headers for _, _, headers in web.requests[1:])


@pytest.mark.parametrize("fault", ["no range", "bad range"])
def test_server_without_ranges_begins_anew(web: WebServer, tmp_path: Path, fault: str) -> None:
    web.faults["/a.bin"] = ["drop 3000", fault]
    assert download_file(f"{web.url}/a.bin", tmp_path / "a.bin", KNOWN).sha256 == SHA256


def test_changed_file_is_not_joined_with_the_old_one(web: WebServer, tmp_path: Path) -> None:
    web.faults["/a.bin"], web.always["/a.bin"] = ["drop 3000"], "status 503"
    with pytest.raises(DownloadError):
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin")
    web.always.clear()
    web.files["/a.bin"] = other = CONTENT[::-1]
    download_file(f"{web.url}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == other


def test_part_longer_than_the_file_is_given_up(web: WebServer, tmp_path: Path) -> None:
    web.faults["/a.bin"], web.always["/a.bin"] = ["drop 3000"], "status 503"
    with pytest.raises(DownloadError):
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin")
    web.always.clear()
    etag = next(tmp_path.glob(".*.json")).read_text()
    (tmp_path / ".a.bin.part").write_bytes(CONTENT + b"more")
    assert "validator" in etag
    assert download_file(f"{web.url}/a.bin", tmp_path / "a.bin").sha256 == SHA256  # after a 416


def test_part_that_only_lacks_its_name_is_not_fetched_again(web: WebServer, tmp_path: Path) -> None:
    (tmp_path / ".a.bin.part").write_bytes(CONTENT)
    download_file(f"{web.url}/a.bin", tmp_path / "a.bin", KNOWN)
    assert web.requests == []


def test_file_that_just_got_its_name_leaves_nothing_beside_it(
    web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "sync_folder", kill)
    with pytest.raises(KeyboardInterrupt):
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin")
    assert leftovers(tmp_path) == ["a.bin"]


@pytest.mark.parametrize(
    ("fault", "expected", "word"),
    [
        ("wrong", KNOWN, "SHA-256"),
        ("", Expectation(len(CONTENT) - 1), "bytes instead of"),
        ("", Expectation(len(CONTENT) + 1), "bytes instead of"),
        ("chunked", Expectation(len(CONTENT) - 1), "larger than"),
        ("", Expectation(largest=100), "at the most"),
        ("", Expectation(starts=(b"\xff\xd8\xff",)), "no image"),
        ("no length", Expectation(), "without its length"),
        ("status 404", KNOWN, "not there"),
        ("status 403", KNOWN, "terms"),
        ("redirect file:///etc/passwd", KNOWN, "not followed"),
        ("redirect ftp://example.org/a", KNOWN, "not followed"),
    ],
)
def test_wrong_answers_leave_nothing(
    web: WebServer, tmp_path: Path, fault: str, expected: Expectation, word: str
) -> None:
    web.always["/a.bin"] = fault
    with pytest.raises(DownloadError, match=word) as raised:
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin", expected)
    assert str(raised.value).count("\n") == 0
    assert not raised.value.passing
    assert leftovers(tmp_path) == []
    assert len(web.requests) == 1


def test_short_file_of_known_length_is_kept_for_later(web: WebServer, tmp_path: Path) -> None:
    web.always["/a.bin"] = "status 503"
    web.faults["/a.bin"] = ["drop 3000"]
    with pytest.raises(DownloadError, match="503") as raised:
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin", KNOWN)
    assert raised.value.passing
    assert len(web.requests) == module.TRIES
    assert not (tmp_path / "a.bin").exists()
    assert (tmp_path / ".a.bin.part").stat().st_size == 3000


def test_redirects_to_another_host_are_followed(web: WebServer, tmp_path: Path) -> None:
    with run_web_server() as other:
        other.files["/b.bin"] = CONTENT
        web.always["/a.bin"] = f"redirect {other.url.replace('127.0.0.1', 'localhost')}/b.bin"
        assert download_file(f"{web.url}/a.bin", tmp_path / "a.bin", KNOWN).sha256 == SHA256


def test_endless_redirects_end(web: WebServer, tmp_path: Path) -> None:
    web.always["/a.bin"] = "redirect /a.bin"
    with pytest.raises(DownloadError):
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin", KNOWN)


def test_secure_address_is_not_left_for_an_open_one() -> None:
    from contrapose.files.web import _SafeRedirects

    with pytest.raises(DownloadError, match="not followed"):
        _SafeRedirects.require_web("https://example.org/a", "http://example.org/a")
    _SafeRedirects.require_web("http://example.org/a", "https://example.org/a")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "data:,a", "/etc/passwd", "ftp://a/b"])
def test_other_addresses_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(DownloadError, match="no address of the web"):
        download_file(url, tmp_path / "a.bin")


def test_host_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", 0.0)
    with run_web_server() as web:
        url = web.url
    with pytest.raises(DownloadError, match="cannot be fetched") as raised:
        download_file(f"{url}/a.bin", tmp_path / "a.bin")
    assert raised.value.passing


def test_credentials_are_not_shown(web: WebServer, tmp_path: Path) -> None:
    with pytest.raises(ContraposeError) as raised:
        download_file(f"{web.url}/none?token=secret", tmp_path / "a.bin")
    assert "secret" not in str(raised.value)


def test_folder_that_cannot_be_written(web: WebServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        download_file(f"{web.url}/a.bin", tmp_path / "file/a.bin")


def test_disk_without_space(
    web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("", (), {"free": 5})())
    with pytest.raises(InputError, match="left"):
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin", KNOWN)


def test_names_are_escaped_in_addresses(web: WebServer, tmp_path: Path) -> None:
    web.files["/ä b.bin"] = CONTENT
    assert download_file(f"{web.url}/ä b.bin", tmp_path / "a.bin").sha256 == SHA256


def test_files_at_once(web: WebServer, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=download_file, args=(f"{web.url}/a.bin", tmp_path / f"{i}.bin"))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert leftovers(tmp_path) == sorted(f"{i}.bin" for i in range(8))


@pytest.mark.parametrize("name", [".a.bin.part", ".a.bin.part.json"])
def test_nothing_is_written_through_a_symbolic_link(
    web: WebServer, tmp_path: Path, name: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with pytest.raises(InputError, match="symbolic link"):
        download_file(f"{web.url}/a.bin", tmp_path / "a.bin")
    assert victim.read_text() == "precious"
