import hashlib
import json
import os
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.data import Benchmark, Example, Suite, benchmark_names, fetcher, find_benchmark
from contrapose.data.cached_data import (
    DataSource,
    data_root,
    data_source,
    data_status,
    find_source,
    list_status,
    read_manifest,
    remove_data,
)
from contrapose.data.downloads import (
    Download,
    HubFiles,
    Manual,
    RemoteFile,
    RemoteImages,
)
from contrapose.data.fetch import (
    fetch_named_images,
    fetch_source,
    find_fetched,
    image_refs,
    open_source,
)
from contrapose.data.video_clips import VideoRef
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.files import download as downloader
from contrapose.files.archives import unpack_archive
from contrapose.files.web import DownloadError
from tests.web_server import COMMIT, WebServer, run_web_server

NAMES = ("000000000001.jpg", "000000000002.jpg", "000000000003.jpg")


def make_image(number: int) -> bytes:
    stream = BytesIO()
    Image.new("RGB", (8, 8), (number, 0, 0)).save(stream, "JPEG")
    return stream.getvalue()


ANNOTATIONS = json.dumps(
    {
        str(i): {"filename": name, "caption": f"a {i}", "negative_caption": f"no {i}"}
        for i, name in enumerate((*NAMES, NAMES[0]))
    }
).encode()
DIGEST = hashlib.sha256(ANNOTATIONS).hexdigest()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WebServer]:
    monkeypatch.setattr(downloader, "BACKOFF", 0.0)
    monkeypatch.setenv("CONTRAPOSE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with run_web_server() as web:
        monkeypatch.setenv("HF_ENDPOINT", web.url)
        web.files["/data/swap_obj.json"] = ANNOTATIONS
        web.files |= {f"/val2017/{name}": make_image(i) for i, name in enumerate(NAMES)}
        yield web


def make_source(web: WebServer, name: str = "sugarcrepe", **changes: object) -> DataSource:
    benchmark = find_benchmark("sugarcrepe")
    assert isinstance(benchmark, Benchmark)
    file = RemoteFile("swap_obj.json", f"{web.url}/data/swap_obj.json", len(ANNOTATIONS), DIGEST)
    images = RemoteImages(
        "val2017", (f"{web.url}/train2017/{{name}}", f"{web.url}/val2017/{{name}}")
    )
    made = replace(Download("c" * 40, (file,), (images,)), **changes)  # type: ignore[arg-type]
    return data_source(name, replace(benchmark, card=replace(benchmark.card, download=made)))


def listed(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


WHOLE = ["manifest.json", "swap_obj.json", *(f"val2017/{name}" for name in NAMES)]


def test_annotations_and_only_their_images(
    web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    web.files["/val2017/000000000004.jpg"] = make_image(4)
    source = make_source(web)
    assert data_status(source).state == "not fetched"
    seen: list[str] = []
    report = fetch_source(source, progress=lambda what, done, total: seen.append(what))
    assert (report.files, report.fetched, report.missing) == (4, 4, {})
    assert report.folder == data_root() / "sugarcrepe" / ("c" * 12)
    assert listed(report.folder) == WHOLE
    assert {"sugarcrepe: images", "sugarcrepe: swap_obj.json (kB)"} == set(seen)
    said = capsys.readouterr().err
    assert "sugarcrepe" in said
    assert source.license in said
    manifest = json.loads((report.folder / "manifest.json").read_text())
    assert manifest["files"]["swap_obj.json"]["sha256"] == DIGEST
    assert manifest["files"][f"val2017/{NAMES[0]}"]["url"].endswith(f"/val2017/{NAMES[0]}")
    status = data_status(source)
    assert (status.state, status.size, status.files) == ("complete", report.size, 4)
    before = len(web.requests)
    assert fetch_source(source).fetched == 0
    assert len(web.requests) == before


def test_selection_fetches_annotations_and_then_its_images(web: WebServer) -> None:
    source = make_source(web)
    folder = open_source(source)
    assert listed(folder) == WHOLE[:2]
    assert data_status(source).state == "partial"
    examples = list(source.parts[0].read(folder, None))  # type: ignore[arg-type]
    fetch_named_images(source, [examples[:1]], complete=False)
    assert listed(folder) == WHOLE[:3]
    fetch_named_images(source, [examples], complete=True)
    assert listed(folder) == WHOLE
    assert data_status(source).state == "complete"


def test_changed_files_are_fetched_again(web: WebServer) -> None:
    source = make_source(web)
    folder = fetch_source(source).folder
    (folder / "swap_obj.json").write_bytes(b"x" * len(ANNOTATIONS))
    (folder / WHOLE[2]).write_bytes(b"short")
    assert data_status(source).state == "partial"
    assert fetch_source(source).fetched == 2
    assert (folder / "swap_obj.json").read_bytes() == ANNOTATIONS
    (folder / "manifest.json").write_text("{")
    assert data_status(source).state == "not fetched"
    fetch_source(source)
    assert data_status(source).state == "complete"


def test_manifest_that_cannot_be_written(web: WebServer) -> None:
    source = make_source(web)
    (source.folder / "manifest.json").mkdir(parents=True)
    with pytest.raises(InputError, match=r"manifest\.json: cannot be written \(.*\); what came"):
        fetch_source(source)
    (source.folder / "manifest.json").rmdir()
    fetch_source(source)
    assert listed(source.folder) == WHOLE


def test_images_that_are_gone_are_summed_up_and_not_asked_for_again(web: WebServer) -> None:
    del web.files[f"/val2017/{NAMES[1]}"]
    web.files[f"/val2017/{NAMES[2]}"] = b"<html>not an image</html>"
    source = make_source(web)
    report = fetch_source(source)
    assert set(report.missing) == set(WHOLE[3:])
    assert "no image" in report.missing[WHOLE[4]]
    assert listed(report.folder) == WHOLE[:3]
    before = len(web.requests)
    examples = list(source.parts[0].read(report.folder, None))  # type: ignore[arg-type]
    fetch_named_images(source, [examples], complete=True)
    assert len(web.requests) == before
    web.files[f"/val2017/{NAMES[1]}"] = make_image(1)
    assert set(fetch_source(source).missing) == {WHOLE[4]}


def test_images_that_fail_for_now_end_the_fetch(web: WebServer) -> None:
    web.always[f"/val2017/{NAMES[1]}"] = "status 503"
    source = make_source(web)
    with pytest.raises(DownloadError, match="1 of 3 images"):
        fetch_source(source)
    assert data_status(source).state == "partial"
    web.always.clear()
    assert fetch_source(source).fetched == 1
    assert data_status(source).state == "complete"


@pytest.mark.parametrize("fault", ["wrong", "status 404", "status 403"])
def test_wrong_annotations_leave_nothing(web: WebServer, fault: str) -> None:
    web.always["/data/swap_obj.json"] = fault
    source = make_source(web)
    with pytest.raises(DownloadError):
        open_source(source)
    assert listed(data_root()) == ["sugarcrepe/.lock"]
    assert data_status(source).state == "not fetched"


def test_benchmarks_share_files(web: WebServer) -> None:
    folder = fetch_source(make_source(web)).folder
    before = len(web.requests)
    other = fetch_source(make_source(web, "other")).folder
    assert len(web.requests) == before
    assert listed(other) == WHOLE
    assert (other / WHOLE[3]).samefile(folder / WHOLE[3])
    remove_data("sugarcrepe")
    assert (other / WHOLE[3]).is_file()


def test_nothing_is_fetched_offline(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_source(web)
    with pytest.raises(InputError, match="contrapose data fetch sugarcrepe"):
        open_source(source, offline=True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="HF_HUB_OFFLINE"):
        fetch_source(source)
    assert web.requests == []
    assert find_fetched(source) is None
    monkeypatch.delenv("HF_HUB_OFFLINE")
    folder = fetch_source(source).folder
    assert open_source(source, offline=True) == folder
    assert find_fetched(source) == folder
    (folder / WHOLE[2]).unlink()
    examples = list(source.parts[0].read(folder, None))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not complete"):
        fetch_named_images(source, [examples], complete=True, offline=True)


def test_archives_are_unpacked_and_deleted(web: WebServer) -> None:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for i, name in enumerate(NAMES):
            archive.writestr(f"val2017/{name}", make_image(i))
    web.files["/images.zip"] = stream.getvalue()
    file = make_source(web).download
    assert isinstance(file, Download)
    archived = RemoteFile("", f"{web.url}/images.zip", unpack="zip")
    source = make_source(web, files=(*file.files, archived), images=())
    report = fetch_source(source)
    assert listed(report.folder) == WHOLE
    assert data_status(source).state == "complete"
    before = len(web.requests)
    assert fetch_source(source).fetched == 0
    assert len(web.requests) == before
    shutil.rmtree(report.folder / "val2017")
    assert data_status(source).state == "partial"
    fetch_source(source)
    assert listed(report.folder) == WHOLE


@pytest.mark.parametrize("place", ["web", "hub"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_archive_is_not_fetched_again_after_a_kill(
    web: WebServer, place: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("swap_obj.json", ANNOTATIONS)
        archive.writestr(f"val2017/{NAMES[0]}", make_image(0))
    web.files["/all.zip"] = stream.getvalue()
    web.datasets["owner/set"] = {"all.zip": stream.getvalue()}
    file: RemoteFile | HubFiles = RemoteFile("", f"{web.url}/all.zip", unpack="zip")
    if place == "hub":
        file = HubFiles("owner/set", ("all.zip",), unpack="zip")
    source = make_source(web, files=(file,), images=())

    def die(*values: Any, **options: Any) -> Any:
        if moment == "after":
            unpack_archive(*values, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(fetcher, "unpack_archive", die)
        with pytest.raises(KeyboardInterrupt):
            open_source(source)
    assert find_fetched(source) is None
    fetched = [path for path in web.paths() if path.endswith("all.zip")]
    assert listed(open_source(source)) == ["manifest.json", "swap_obj.json", WHOLE[2]]
    assert [path for path in web.paths() if path.endswith("all.zip")] == fetched


def test_hostile_archive_leaves_nothing(web: WebServer, tmp_path: Path) -> None:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("../../../outside.jpg", b"a")
    web.files["/images.zip"] = stream.getvalue()
    source = make_source(web, files=(RemoteFile("", f"{web.url}/images.zip", unpack="zip"),))
    with pytest.raises(InputError, match="not safe"):
        open_source(source)
    assert not list(tmp_path.rglob("outside.jpg"))
    assert data_status(source).folder is None or data_status(source).state == "partial"


def hub_source(web: WebServer, **changes: object) -> DataSource:
    web.datasets["owner/set"] = {"data/swap_obj.json": ANNOTATIONS, "data/other.csv": b"no"}
    files = (HubFiles("owner/set", ("data/*.json",), strip="data/"),)
    values: dict[str, Any] = {"files": files, "revision": None, **changes}
    return make_source(web, **values)


def test_hub_files_at_the_newest_commit(web: WebServer) -> None:
    source = hub_source(web)
    report = fetch_source(source)
    assert listed(report.folder) == WHOLE
    manifest = read_manifest(report.folder)
    assert manifest.commits == {"owner/set": COMMIT}
    assert f"/resolve/{COMMIT}/" in manifest.files["swap_obj.json"]["url"]
    assert manifest.files["swap_obj.json"]["sha256"] == DIGEST
    assert any(h.get("authorization") == "Bearer hf_test" for _, _, h in web.requests)
    before = len(web.requests)
    assert fetch_source(source).fetched == 0
    assert len(web.requests) == before


def test_hub_that_drops_the_connection(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    source = hub_source(web)
    path = f"/datasets/owner/set/resolve/{COMMIT}/data/swap_obj.json"
    web.faults[path] = ["", "drop 20"]  # the first request asks for the size alone
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    assert listed(open_source(source)) == WHOLE[:2]


def test_hub_whose_list_comes_at_the_third_attempt(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = hub_source(web)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    web.faults["/api/datasets/owner/set"] = ["close", "status 503"]
    assert listed(open_source(source)) == WHOLE[:2]
    assert web.paths().count("/api/datasets/owner/set") == 3


def test_hub_that_never_answers(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    source = hub_source(web)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    web.always["/api/datasets/owner/set"] = "close"
    with pytest.raises(DownloadError, match="run the same again") as raised:
        open_source(source)
    assert raised.value.passing
    assert web.paths().count("/api/datasets/owner/set") == downloader.TRIES


def test_hub_with_wrong_bytes(web: WebServer) -> None:
    source = hub_source(web)
    web.always[f"/datasets/owner/set/resolve/{COMMIT}/data/swap_obj.json"] = "wrong"
    with pytest.raises(DownloadError, match="not what the hub says"):
        open_source(source)
    assert listed(data_root()) == ["sugarcrepe/.lock"]


@pytest.mark.parametrize("missing", ["repository", "file"])
def test_hub_without_the_files(web: WebServer, missing: str) -> None:
    source = hub_source(web)
    if missing == "repository":
        web.datasets.clear()
    else:
        web.datasets["owner/set"] = {"README.md": b""}
    with pytest.raises(DownloadError, match="hub"):
        open_source(source)
    assert listed(data_root()) == ["sugarcrepe/.lock"]


def test_gated_set_names_page_license_layout_and_option(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = hub_source(web, gated="https://example.org/terms")
    assert data_status(source).state == "gated"
    web.always["/api/datasets/owner/set"] = "gated"
    for token in ("hf_test", ""):
        monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
        with pytest.raises(InputError) as raised:
            fetch_source(source)
        for word in ("https://example.org/terms", source.license, source.layout, "root"):
            assert word in str(raised.value)
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    web.always.clear()
    assert fetch_source(source).files == 4
    assert data_status(source).state == "complete"


def test_manual_set_names_page_license_layout_and_option() -> None:
    source = find_source("class-folders")
    with pytest.raises(InputError, match="root"):
        fetch_source(source)
    source = replace(source, download=Manual("https://example.org/page", "Fetch a.zip."))
    with pytest.raises(InputError) as raised:
        fetch_source(source)
    for word in ("https://example.org/page", "Fetch a.zip", source.license, source.layout, "root"):
        assert word in str(raised.value)
    assert data_status(source).state == "manual"


def test_two_fetches_at_once_fetch_each_file_once(web: WebServer) -> None:
    web.always["/data/swap_obj.json"] = "slow"
    reports = []
    threads = [
        threading.Thread(target=lambda: reports.append(fetch_source(make_source(web))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report.fetched for report in reports) == [0, 0, 4]
    assert web.paths().count("/data/swap_obj.json") == 1


@pytest.mark.parametrize("moment", ["annotations", "images", "manifest"])
def test_killed_fetch_goes_on(web: WebServer, moment: str) -> None:
    source = make_source(web)
    paths = ["/data/swap_obj.json", *(f"/val2017/{name}" for name in NAMES)]
    waiting = paths[0] if moment == "annotations" else paths[2]
    if moment != "manifest":
        web.always[waiting] = "hang"
    child = get_context("fork").Process(target=fetch_source, args=(source,))
    child.start()
    end = time.monotonic() + 60
    wanted = {"annotations": waiting, "images": waiting, "manifest": paths[3]}[moment]
    while wanted not in web.paths() and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(0.02)
    child.kill()
    child.join()
    for path in source.folder.rglob("*"):  # whatever has its name is complete
        if path.is_file() and not path.name.startswith("."):
            at = path.relative_to(source.folder).as_posix()
            content = {WHOLE[1]: ANNOTATIONS, **{WHOLE[2 + i]: make_image(i) for i in range(3)}}
            assert at == WHOLE[0] or path.read_bytes() == content[at]
    web.always.clear()
    report = fetch_source(source)
    assert listed(report.folder) == WHOLE
    assert report.files == 4
    assert data_status(source).state == "complete"


def test_removal_stays_in_the_cache(web: WebServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no files of"):
        remove_data("sugarcrepe")
    fetch_source(make_source(web))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/.lock").touch()
    (data_root() / "sugarcrepe/link").symlink_to(tmp_path / "kept")
    (data_root() / "linked").symlink_to(tmp_path / "kept")
    for name in ("../kept", "/etc", "linked", "", "."):
        with pytest.raises(InputError):
            remove_data(name)
    assert remove_data("sugarcrepe") > len(ANNOTATIONS)
    assert listed(data_root()) == []
    assert (tmp_path / "kept/.lock").is_file()


def test_manifest_cannot_name_files_outside(web: WebServer) -> None:
    folder = fetch_source(make_source(web)).folder
    content = json.loads((folder / "manifest.json").read_text())
    content["files"]["../../../outside"] = content["files"]["swap_obj.json"]
    (folder / "manifest.json").write_text(json.dumps(content))
    assert read_manifest(folder).files == {}


def test_parts_of_a_suite_share_a_folder(web: WebServer) -> None:
    (part,) = make_source(web).parts
    assert isinstance(part.card.download, Download)
    file = RemoteFile("more.json", f"{web.url}/more.json")
    web.files["/more.json"] = b"{}"
    other = replace(part.card, download=replace(part.card.download, files=(file,)))
    suite = Suite("both", "Both", {"a": part, "b": replace(part, card=other)})
    source = data_source("both", suite)
    assert listed(open_source(source)) == ["manifest.json", "more.json", "swap_obj.json"]


def test_list_covers_every_benchmark_with_a_download(tmp_path: Path) -> None:
    states = {status.name: status for status in list_status()}
    assert "class-folders" not in states
    for name, status in states.items():
        benchmark = find_benchmark(name)
        cards = (
            [p.card for p in benchmark.parts.values()]
            if isinstance(benchmark, Suite)
            else [benchmark.card]
        )
        assert all(card.download is not None for card in cards)
        assert status.license


@pytest.mark.parametrize("variable", ["CONTRAPOSE_DATA", "XDG_CACHE_HOME"])
def test_root_of_the_cache(variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONTRAPOSE_DATA", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    inside = "" if variable == "CONTRAPOSE_DATA" else "contrapose/data"
    assert data_root() == Path(os.fspath(tmp_path), inside)


def test_images_by_hand_are_named(web: WebServer, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_source(web, images=(), by_hand="the images of example.org")
    examples = list(source.parts[0].read(open_source(source), None))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"the images of example\.org"):
        fetch_named_images(source, [examples], complete=True)
    (source.folder / "val2017").mkdir()
    (source.folder / WHOLE[2]).write_bytes(make_image(0))
    fetch_named_images(source, [examples], complete=True)
    assert "the images of example.org" in capsys.readouterr().err


def test_videos_by_hand_are_named(web: WebServer) -> None:
    source = make_source(web, images=(), by_hand="the videos of example.org")
    video = VideoRef(open_source(source) / "videos" / "a.mp4")
    example = Example("1", (video,), ("a", "b"), ((True, False),))
    with pytest.raises(InputError, match=r"the videos of example\.org"):
        fetch_named_images(source, [[example]], complete=True)


def card_downloads() -> dict[str, Download]:
    sources = {name: data_source(name, find_benchmark(name)) for name in benchmark_names()}
    return {
        name: source.download
        for name, source in sources.items()
        if isinstance(source.download, Download)
    }


def test_downloads_of_cards_are_well_formed() -> None:
    for name, download in card_downloads().items():
        assert download.revision is None or re.fullmatch("[0-9a-f]{40}", download.revision), name
        paths = [file.path for file in download.files if isinstance(file, RemoteFile)]
        assert len(set(paths)) == len(paths), name
        for file in download.files:
            if isinstance(file, HubFiles):
                assert re.fullmatch(r"[\w.-]+/[\w.-]+", file.repo), name
                continue
            assert re.match(r"https?://", file.url), name
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256), name
            assert file.sha256 is None or file.size is not None, name
        for images in download.images:
            assert all("{name}" in url or "{stem}" in url for url in images.urls), name


def test_digests_of_cards_are_those_of_the_released_files(shared: Path) -> None:
    known = {
        (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in shared.rglob("*")
        if path.is_file() and path.suffix in (".json", ".jsonl", ".csv", ".tsv", ".txt")
    }
    pinned = {
        (file.size, file.sha256): name
        for name, download in card_downloads().items()
        for file in download.files
        if isinstance(file, RemoteFile) and file.sha256 is not None
    }
    assert len(pinned) > 50
    unknown = [name for pin, name in pinned.items() if pin not in known]
    assert unknown == [], "digests that no file here has"


def test_pinned_files_are_read_with_their_images(shared: Path, web: WebServer) -> None:
    card = find_source("sugarcrepe")
    assert isinstance(card.download, Download)
    folder = shared / "sugarcrepe"
    for file in folder.glob("*.json"):
        web.files[f"/data/{file.name}"] = file.read_bytes()
    files = tuple(
        replace(file, url=f"{web.url}/data/{file.path}")
        for file in card.download.files
        if isinstance(file, RemoteFile)
    )
    source = replace(card, download=replace(card.download, files=files))
    opened = open_source(source)
    refs = {ref.path for ref in image_refs(card.parts[0].read(opened, StrictProblems()))}
    assert len(refs) == card.download.images[0].count == 1560
    assert {path.parent.name for path in refs if path} == {"val2017"}
