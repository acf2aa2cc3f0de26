import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import contrapose as cp
from contrapose.data import Benchmark, find_benchmark
from contrapose.data.benchmarks import sugarcrepe
from contrapose.errors import InputError
from contrapose.files import download
from contrapose.files.web import DownloadError
from tests.conftest import Cli
from tests.data.test_fetch import ANNOTATIONS, NAMES, make_image, make_source
from tests.web_server import WebServer, run_web_server


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WebServer]:
    """SugarCrepe of four examples on a local server."""
    monkeypatch.setattr(download, "BACKOFF", 0.0)
    monkeypatch.setenv("CONTRAPOSE_DATA", str(tmp_path / "data"))
    with run_web_server() as web:
        web.files["/data/swap_obj.json"] = ANNOTATIONS
        web.files |= {f"/val2017/{name}": make_image(i) for i, name in enumerate(NAMES)}
        (part,) = make_source(web).parts
        monkeypatch.setattr(sugarcrepe, "BENCHMARK", part)
        yield web


def test_fetch_list_where_and_remove(web: WebServer, cli: Cli, tmp_path: Path) -> None:
    assert "contrapose data fetch sugarcrepe" in cli("data", "where", "sugarcrepe").refused()
    fetched = cli("data", "fetch", "sugarcrepe")
    assert fetched.status == 0
    assert "4 files" in fetched.out
    assert "Licence" in fetched.err
    assert "sugarcrepe: images: 3 of 3" in fetched.err
    folder = Path(cli("data", "where", "sugarcrepe").out.strip())
    assert (folder / "val2017" / NAMES[0]).is_file()
    assert cli("data", "where").out.strip() == str(tmp_path / "data")
    states = {one["name"]: one for one in json.loads(cli("data", "list", "--json").out)}
    assert states["sugarcrepe"]["state"] == "complete"
    assert states["sugarcrepe"]["folder"] == str(folder)
    assert states["eqben"]["state"] == "manual"
    assert states["winoground"]["state"] == "gated"
    assert "complete" in cli("data", "list").out
    assert cli("data", "remove", "sugarcrepe", "--yes").status == 0
    assert not folder.exists()
    assert "no files of" in cli("data", "remove", "sugarcrepe", "--yes").refused()


def test_verification_names_what_changed(web: WebServer, cli: Cli) -> None:
    assert "data fetch" in cli("data", "verify", "sugarcrepe").refused()
    folder = cp.fetch_data("sugarcrepe").folder
    output = cli("data", "verify", "sugarcrepe", "--quiet")
    assert (output.status, output.err) == (0, "")
    assert "4 files" in output.out
    image = folder / "val2017" / NAMES[0]
    image.write_bytes(bytes([*image.read_bytes()[:-1], 0]))
    output = cli("data", "verify", "sugarcrepe")
    assert output.status == 1
    assert f"val2017/{NAMES[0]} has another SHA-256" in output.out
    assert "data fetch sugarcrepe" in output.err
    assert list(cp.verify_data("sugarcrepe").changed) == [f"val2017/{NAMES[0]}"]
    assert cli("data", "fetch", "sugarcrepe").status == 0
    assert cli("data", "verify", "sugarcrepe").status == 0


def test_removal_asks_first(web: WebServer, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cp.fetch_data("sugarcrepe").folder
    monkeypatch.setattr("typer.confirm", lambda question: False)
    assert cli("data", "remove", "sugarcrepe").status == 1
    assert folder.is_dir()
    monkeypatch.setattr("typer.confirm", lambda question: True)
    assert cli("data", "remove", "sugarcrepe").status == 0
    assert not folder.exists()


def test_images_that_are_gone_give_status_1(web: WebServer, cli: Cli) -> None:
    del web.files[f"/val2017/{NAMES[0]}"]
    output = cli("data", "fetch", "sugarcrepe", "--quiet")
    assert output.status == 1
    assert NAMES[0] in output.err
    assert "1 images missing" in cli("data", "list").out


def test_eval_fetches_what_it_needs(web: WebServer, cli: Cli) -> None:
    run = cp.evaluate(lambda image, text: float("a" in text), on="sugarcrepe", limit=1, cache=False)
    assert isinstance(run, cp.Run)
    assert run.results.examples == 1
    assert web.paths() == ["/data/swap_obj.json", f"/train2017/{NAMES[0]}", f"/val2017/{NAMES[0]}"]
    output = cli("audit", "sugarcrepe", "--lm", "none", "--offline", "--resamples", 100)
    assert output.status == 0, output
    said = cli("eval", "tiny-clip", "--on", "sugarcrepe", "--offline", "--no-cache").refused()
    assert "contrapose data fetch sugarcrepe" in said
    assert "--offline" in said
    assert len(web.requests) == 3


def test_root_wins(web: WebServer, tmp_path: Path) -> None:
    (tmp_path / "mine" / "val2017").mkdir(parents=True)
    (tmp_path / "mine" / "swap_obj.json").write_bytes(ANNOTATIONS)
    for i, name in enumerate(NAMES):
        (tmp_path / "mine" / "val2017" / name).write_bytes(make_image(i))
    cp.evaluate(lambda image, text: 0.0, on="sugarcrepe", root=tmp_path / "mine", cache=False)
    assert web.requests == []
    assert not (tmp_path / "data").exists()


def test_check_data_uses_the_cache(web: WebServer, cli: Cli) -> None:
    assert "not complete" in cli("check", "data", "sugarcrepe", "--offline").refused()
    cp.fetch_data("sugarcrepe")
    (report,) = cp.check_data("sugarcrepe", offline=True)
    assert report.opened == 3


def test_functions_refuse_unknown_names(web: WebServer) -> None:
    for function in (cp.fetch_data, cp.verify_data, cp.find_data, cp.remove_data):
        with pytest.raises(InputError, match="sugarcrep"):
            function("sugarcrep")
    web.always["/data/swap_obj.json"] = "wrong"
    with pytest.raises(DownloadError, match="SHA-256"):
        cp.fetch_data("sugarcrepe")


def test_manual_and_gated_sets_say_what_to_do(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    for name, page in (("eqben", "github.com/Wangt-CN"), ("winoground", "huggingface.co/datasets")):
        benchmark = find_benchmark(name)
        assert isinstance(benchmark, Benchmark)
        said = cli("eval", "tiny-clip", "--on", name).refused()
        for word in (page, benchmark.card.license, "--root DIR", benchmark.card.layout[:20]):
            assert word in said


def test_card_shows_its_download(cli: Cli) -> None:
    shown = cli("list", "benchmarks", "sugarcrepe").out
    for word in ("download", "1,560 images", "c58a1fce695ee4f9d42ca15b6eeaacd84809416a", "licence"):
        assert word in shown
    assert "by hand" in cli("list", "benchmarks", "valse").out
    assert "terms to accept" in cli("list", "benchmarks", "winoground").out
    assert "Google Drive" in cli("list", "benchmarks", "eqben").out


def test_metrics_of_galleries_use_the_cache(
    web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contrapose.data.benchmarks import retrieval
    from contrapose.data.downloads import Download, RemoteFile

    card = retrieval.BENCHMARKS["coco-retrieval"]
    assert isinstance(card, Benchmark)
    entry = [{"image": "val2014/a.jpg", "caption": ["a", "b"]}]
    web.files["/k.json"] = json.dumps(entry).encode()
    made = Download(None, (RemoteFile("coco_karpathy_test.json", f"{web.url}/k.json"),))
    changed = replace(card, card=replace(card.card, download=made))
    monkeypatch.setitem(retrieval.BENCHMARKS, "coco-retrieval", changed)
    with pytest.raises(InputError, match="data fetch coco-retrieval"):
        cp.measure([[1.0, 0.5]], "coco-retrieval")
    cp.fetch_data("coco-retrieval")
    run = cp.measure([[1.0, 0.5]], "coco-retrieval", resamples=100)
    assert run.results.metrics
