import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from contrapose.errors import InputError
from contrapose.files import archives as module
from contrapose.files.archives import unpack_archive


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


def make_tar(path: Path, members: list[tarfile.TarInfo], content: bytes = b"a") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info in members:
            info.size = len(content) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return path


def make_member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tree(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_zip_is_unpacked(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"images/1.jpg": b"1", "images/b/2.jpg": b"22"})
    unpacked = unpack_archive(archive, tmp_path / "out", "zip")
    assert tree(tmp_path / "out") == ["images/1.jpg", "images/b/2.jpg"]
    assert (unpacked.entries, unpacked.files, unpacked.size) == (("images",), 2, 3)


def test_tar_is_unpacked_and_merged_with_what_is_there(tmp_path: Path) -> None:
    members = [make_member("./images", tarfile.DIRTYPE), make_member("./images/1.jpg")]
    archive = make_tar(tmp_path / "a.tgz", members, b"new")
    (tmp_path / "out/images").mkdir(parents=True)
    (tmp_path / "out/images/1.jpg").write_bytes(b"old")
    (tmp_path / "out/images/0.jpg").write_bytes(b"kept")
    unpack_archive(archive, tmp_path / "out", "tar")
    assert tree(tmp_path / "out") == ["images/0.jpg", "images/1.jpg"]
    assert (tmp_path / "out/images/1.jpg").read_bytes() == b"new"


HOSTILE = [
    "../a", "a/../../b", "/etc/a", "C:/a", "C:a", "a\\..\\..\\b", "\\\\host\\a", "a/./b", "a//b",
    "..", "a/..", "nul", "a\x01b", "x" * 300, "",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str, form: str) -> None:
    if form == "zip":
        archive = make_zip(tmp_path / "a.zip", {"good.txt": b"1", name: b"2"})
        with pytest.raises(InputError, match="not safe"):
            unpack_archive(archive, tmp_path / "out", "zip")
    else:
        archive = make_tar(tmp_path / "a.tar", [make_member("good.txt"), make_member(name)])
        with pytest.raises(InputError, match="not safe"):
            unpack_archive(archive, tmp_path / "out", "tar")
    assert tree(tmp_path / "out") == []
    assert sorted(p.name for p in tmp_path.iterdir()) == [archive.name, "out"]


def test_name_with_nul_is_refused(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"good.txt": b"1", "a_b.txt": b"2"})
    archive.write_bytes(archive.read_bytes().replace(b"a_b.txt", b"a\0b.txt"))
    with pytest.raises(InputError, match="not safe"):
        unpack_archive(archive, tmp_path / "out", "zip")


KINDS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_devices_in_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    link = make_member("link", kind, "/etc")
    archive = make_tar(tmp_path / "a.tar", [make_member("good"), link, make_member("link/a")])
    with pytest.raises(InputError, match="link or device"):
        unpack_archive(archive, tmp_path / "out", "tar")
    assert tree(tmp_path / "out") == []


def test_links_in_zip_are_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc")
    with pytest.raises(InputError, match="link or device"):
        unpack_archive(tmp_path / "a.zip", tmp_path / "out", "zip")


def test_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/images").symlink_to(tmp_path / "outside")
    unpack_archive(make_zip(tmp_path / "a.zip", {"images/1.jpg": b"1"}), tmp_path / "out", "zip")
    assert tree(tmp_path / "outside") == []
    assert tree(tmp_path / "out") == ["images/1.jpg"]


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_LIMIT", 1000)
    archive = make_zip(tmp_path / "a.zip", {"a": b"\0" * 1_000_000})
    with pytest.raises(InputError, match="more than"):
        unpack_archive(archive, tmp_path / "out", "zip")
    with pytest.raises(InputError, match="more than"):
        unpack_archive(archive, tmp_path / "out", "zip", size=999_999)
    tar = make_tar(tmp_path / "a.tgz", [make_member("a")], b"\0" * 1_000_000)
    with pytest.raises(InputError, match="more than"):
        unpack_archive(tar, tmp_path / "out", "tar")
    monkeypatch.setattr(module, "MOST_MEMBERS", 2)
    many = make_zip(tmp_path / "b.zip", {"a": b"", "b": b"", "c": b""})
    with pytest.raises(InputError, match="files"):
        unpack_archive(many, tmp_path / "out", "zip")
    assert tree(tmp_path / "out") == []


def test_member_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    content = b"abc" * 100
    archive = make_zip(tmp_path / "a.zip", {"a": content})
    size = (300).to_bytes(4, "little")
    archive.write_bytes(archive.read_bytes().replace(size, (3).to_bytes(4, "little")))
    with pytest.raises(InputError):
        unpack_archive(archive, tmp_path / "out", "zip")
    assert tree(tmp_path / "out") == []


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_damaged_archives(tmp_path: Path, form: str) -> None:
    if form == "zip":
        good = make_zip(tmp_path / "a", {"a": b"abc" * 100})
    else:
        good = make_tar(tmp_path / "a", [make_member("a")], bytes(range(256)) * 10)
    content = good.read_bytes()
    for bad in (
        b"",
        b"no archive",
        content[: len(content) // 2],
        content[:40] + b"\0" + content[41:],
    ):
        good.write_bytes(bad)
        with pytest.raises(InputError):
            unpack_archive(good, tmp_path / "out", "zip" if form == "zip" else "tar")
        assert tree(tmp_path / "out") == []


def test_doubled_and_encrypted_members(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"a": b"1", "A": b"2"})
    with pytest.raises(InputError, match="twice"):
        unpack_archive(archive, tmp_path / "out", "zip")
    archive = make_zip(tmp_path / "b.zip", {"a": b"1"})
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    content[6] |= 1
    archive.write_bytes(content)
    with pytest.raises(InputError):
        unpack_archive(archive, tmp_path / "out", "zip")


def make_pax_tar(path: Path, headers: dict[str, str]) -> Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = make_member("a")
        info.size, info.pax_headers = 1, headers
        archive.addfile(info, io.BytesIO(b"a"))
    return path


@pytest.mark.parametrize(
    "headers",
    [{"GNU.sparse.map": "0,1,2", "GNU.sparse.size": "9" * 30},
     {"GNU.sparse.map": "x", "GNU.sparse.size": "1"},
     {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9" * 30,
      "GNU.sparse.name": "../z"}],
)  # fmt: skip
def test_sparse_headers_are_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    archive = make_pax_tar(tmp_path / "a.tar", headers)
    with pytest.raises(InputError) as raised:
        unpack_archive(archive, tmp_path / "out", "tar")
    assert "\n" not in str(raised.value)
    assert tree(tmp_path / "out") == []
