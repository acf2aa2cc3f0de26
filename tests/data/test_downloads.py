from contrapose.data import find_benchmark
from contrapose.data.cards import Benchmark
from contrapose.data.downloads import (
    Download,
    HubFiles,
    Manual,
    RemoteFile,
    coco_images,
    describe_download,
    download_kind,
    download_size,
    format_size,
    genome_images,
    github_files,
)


def test_card_without_download_has_none() -> None:
    benchmark = find_benchmark("class-folders")
    assert isinstance(benchmark, Benchmark)
    assert benchmark.card.download is None
    assert download_kind(None) == "none"
    assert download_size(None) is None


def test_kind_and_size() -> None:
    file = RemoteFile("a.json", "https://example.org/a.json", 1500)
    download = Download("a" * 40, (file,))
    assert (download_kind(download), download_size(download)) == ("fetchable", 1500)
    assert download.folder == "a" * 12
    assert describe_download(download) == "fetchable, 1.5 kB"
    gated = Download(None, (HubFiles("o/n", ("*.parquet",)),), gated="https://example.org")
    assert (download_kind(gated), download_size(gated)) == ("gated", None)
    assert gated.folder == "latest"
    assert "not known" in describe_download(gated)
    manual = Manual("https://example.org", "Fetch a.zip.", 3_200_000_000)
    assert describe_download(manual) == "manual, 3.2 GB"


def test_size_is_unknown_when_one_part_is() -> None:
    file = RemoteFile("a.json", "https://example.org/a.json", 20)
    download = Download(None, (file,), (coco_images("val2017", "val2017", count=1560),))
    assert download_size(download) is None
    assert describe_download(download) == "fetchable, 20 B and 1,560 images"


def test_sizes_are_formatted_in_decimal_units() -> None:
    sizes = (None, 0, 999, 1000, 123_456, 2_500_000, 8_150_000_000_000)
    expected = ["–", "0 B", "999 B", "1.0 kB", "123 kB", "2.5 MB", "8150 GB"]
    assert [format_size(size) for size in sizes] == expected


def test_addresses() -> None:
    (file,) = github_files("o/n", "c" * 40, {"a.json": ("data/a.json", 3, None)})
    assert file.url == f"https://raw.githubusercontent.com/o/n/{'c' * 40}/data/a.json"
    assert genome_images("images").urls[1].endswith("/VG_100K_2/{name}")
