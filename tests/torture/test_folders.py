"""Fuzzing of logs, run folders, indexes, pair sets, checkpoints, archives and the store."""

from __future__ import annotations

import copy
import json
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.build.edits.recipe import load_recipe
from contrapose.build.review.decisions import apply_review, read_decisions
from contrapose.build.review.page import write_review_page
from contrapose.build.review.pairs import read_pair_set
from contrapose.build.triplets.sources import read_relationships
from contrapose.build.video.graph import pair_graph, read_graph
from contrapose.build.video.steps import read_steps
from contrapose.data import ImageRef
from contrapose.data.cached_data import read_manifest
from contrapose.data.examples import diagonal_match
from contrapose.data.integrity import compare_files, store_times
from contrapose.errors import ContraposeError
from contrapose.files import ProblemList, StrictProblems, digest, read_npy
from contrapose.files.archives import unpack_archive
from contrapose.models.joined import JoinedSpec, Side, read_joined, save_joined
from contrapose.models.tiny.weights import read_weights
from contrapose.report.explorer.server import ExplorerRoutes, load_view
from contrapose.results import RunRecord, imports
from contrapose.results.run_files import write_spec
from contrapose.results.runs import read_measured, read_results, read_runs
from contrapose.scores.logs import is_log, read_group_answers, read_logs
from contrapose.search.index import MANIFEST, _manifest_digest, block_checksum, open_index
from contrapose.search.queries import SearchQuery
from contrapose.search.searcher import Searcher
from contrapose.search.writer import IndexRequest, build_index
from contrapose.tune.data.files import read_training_set
from contrapose.tune.heads.features import read_features
from contrapose.tune.parameters import read_state
from tests.build.review.pair_folder import color_pair, write_set
from tests.results.test_imports import inspect_members, lm_eval_sample, write_zstd
from tests.scores.test_vlmevalkit import choice_row, write_sheet
from tests.search.photos import ColorModel, write_photos
from tests.torture.conftest import Tally
from tests.torture.mutations import ROUNDS, fuzz, write
from tests.torture.test_readers import npy, png
from tests.tune.small import small_student

Reader = Callable[[Path], object]
FEW = max(2, ROUNDS // 2)


def load_folder(folder: Path) -> dict[str, Any]:
    """Files of a folder: JSON as values, all others as bytes."""
    files: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            files[name] = json.loads(content) if path.suffix == ".json" else content
    return files


def in_folder(make: Callable[[Path], None]) -> dict[str, Any]:
    """Files that a function writes into a folder."""
    with TemporaryDirectory() as folder:
        make(Path(folder))
        return load_folder(Path(folder))


def zipped(form: str = "zip") -> bytes:
    sink = BytesIO()
    members = {"a/1.txt": b"one" * 30, "a/b/2.txt": bytes(range(256)), "c.json": b"{}"}
    if form == "zip":
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=sink, mode="w:gz" if form == "tgz" else "w") as tar:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, BytesIO(content))
    return sink.getvalue()


def training_tar() -> bytes:
    sink = BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for name, content in {"a.png": png(), "a.json": b'{"caption": "a cat"}'}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, BytesIO(content))
    return sink.getvalue()


def unpack(root: Path) -> None:
    """Unpack, and check that nothing was written outside, and no link."""
    (archive,) = (path for path in root.iterdir() if path.is_file())
    before = {path for path in root.parent.rglob("*") if root not in path.parents}
    form = "zip" if archive.suffix == ".zip" else "tar"
    try:
        unpack_archive(archive, root / "out", form)  # type: ignore[arg-type]
    finally:
        assert {path for path in root.parent.rglob("*") if root not in path.parents} == before
        assert not [path for path in root.rglob("*") if path.is_symlink()]


# Logs of other programs.

SAMPLES = [lm_eval_sample(i, i % 2 == 0) for i in range(4)]
LMMS = [
    {"doc_id": i, "target": "yes", "resps": [["yes"]], "filtered_resps": ["yes"],
     "mme_score": {"question_id": f"{i}", "score": 1.0},
     "naturalbench_G_ACC": {"id": i, "score": 1}}
    for i in range(4)
]  # fmt: skip
MTEB = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": [[[1.0, 0.5], [0.2, 0.7]]] * 3}}
HEADER = inspect_members()["header.json"]
INSPECT = {**HEADER, "samples": [inspect_members()[f"samples/{i}_epoch_1.json"] for i in range(4)]}
TABLE = [choice_row(i, right=i % 2 == 0) for i in range(4)]


def archive_log(root: Path) -> None:
    write_zstd(root / "log.eval", inspect_members())


def deflated_log(root: Path) -> None:
    with zipfile.ZipFile(root / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in inspect_members().items():
            archive.writestr(name, json.dumps(value))


def sheet(root: Path) -> None:
    write_sheet(root / "llava_MMBench.xlsx", TABLE)


def read_log(root: Path) -> None:
    file = next(path for path in sorted(root.iterdir()) if not path.name.startswith("results"))
    is_log(file)
    read_group_answers(file)
    for log in read_logs(file):
        imports._build_run(log, imports.ImportRequest(file, resamples=20))


LOGS: dict[str, dict[str, Any]] = {
    "lm-eval": {"samples_toy_2026-01-31T12-00-00.000001.jsonl": SAMPLES,
                "results_2026-01-31T12-00-00.000001.json": {"model_name": "m",
                "higher_is_better": {"toy": {"acc": False}}}},
    "lmms-eval": {"20260131_120000_samples_mme.jsonl": LMMS},
    "mteb": {"Winoground_predictions.json": MTEB},
    "inspect json": {"log.json": INSPECT},
    "inspect zstd": in_folder(archive_log),
    "inspect deflate": in_folder(deflated_log),
    "vlmevalkit csv": {"llava_MMBench.csv": TABLE},
    "vlmevalkit tsv": {"llava_MMBench.tsv": TABLE},
    "vlmevalkit json": {"llava_MMBench.json": TABLE},
    "vlmevalkit xlsx": in_folder(sheet),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_logs(name: str, tmp_path: Path, tally: Tally) -> None:
    tally.add("logs of other programs", fuzz(tmp_path, LOGS[name], read_log, name, rounds=FEW))


# Run folders.


@cache
def run_folder() -> dict[str, Any]:
    def make(root: Path) -> None:
        scores = np.random.default_rng(0).normal(size=(3, 2, 2))
        examples = [
            cp.Example(str(i), (ImageRef(f"{i}a", Path("a.png")), ImageRef(f"{i}b", Path("b.png"))),
                       ("a cat", "a dog"), diagonal_match(2), {"kind": "odd" if i % 2 else "even"})
            for i in range(3)
        ]  # fmt: skip
        run = cp.measure(scores, examples, resamples=100)
        run.save(root / "run")
        (root / "run").rename(root / "moved")
        for path in (root / "moved").iterdir():
            path.rename(root / path.name)
        (root / "moved").rmdir()

    return in_folder(make)


def read_run_folder(root: Path) -> None:
    for read in (read_runs, read_measured, read_results, read_view):
        try:
            read(root)
        except ContraposeError:
            continue


def read_view(root: Path) -> None:
    records, folders = load_view([root])
    assert ExplorerRoutes(records, folders).page


def mend_run(root: Path) -> None:
    """Write the digests of the changed files, as whoever means harm would."""
    try:
        spec = json.loads((root / "spec.json").read_text())
        spec.pop("digest", None)
        spec.pop("digests", None)
        layout = spec.pop("layout")
        if layout == 3:
            write_spec(root, spec)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return


@pytest.mark.parametrize("mended", [False, True])
def test_run_folders(mended: bool, tmp_path: Path, tally: Tally) -> None:
    name = "mended run" if mended else "run"
    mend = mend_run if mended else None
    count = fuzz(tmp_path, run_folder(), read_run_folder, name, mend=mend, rounds=FEW)
    tally.add("run folders", count)


# Indexes, pair sets, models, caches.


@cache
def index_folder() -> dict[str, Any]:
    def make(root: Path) -> None:
        folder = write_photos(root / "photos")
        build_index(IndexRequest(folder, root / "index"), ColorModel())
        for path in (root / "photos").rglob("*.png"):
            path.unlink()

    return {
        name: value for name, value in in_folder(make).items() if name.startswith("index")
    }  # fmt: skip


def search_index(root: Path) -> None:
    index = open_index(root / "index")
    searcher = Searcher(index, ColorModel())
    searcher.search(SearchQuery(text="red"), 3)
    for row in range(len(index)):
        index.path(row)


def mend_index(root: Path) -> None:
    """Write the digests of the changed files, as whoever means harm would."""
    manifest_file = root / "index" / MANIFEST
    try:
        manifest = json.loads(manifest_file.read_text())
        manifest.pop("digest", None)
        content = (root / "index" / "images-1.parquet").read_bytes()
        manifest["images_digest"] = digest(content)
        vectors = read_npy(root / "index" / "vectors-1.npy")
        manifest["checksums"] = f"{block_checksum(vectors):08x}"
        manifest["digest"] = _manifest_digest(manifest)
        manifest_file.write_text(json.dumps(manifest))
    except (ContraposeError, ValueError, AttributeError, TypeError, RecursionError):
        return


@cache
def pair_folder() -> dict[str, Any]:
    return in_folder(_write_pairs)


def _write_pairs(root: Path) -> None:
    write_set(root / "set", [color_pair(0), color_pair(1)])
    build = read_pair_set(root / "set").id
    content = {"format": "contrapose-decisions", "version": 1, "build": build}
    decisions = {**content, "decisions": {"pair-0": "keep", "pair-1": "drop"}}
    (root / "decisions.json").write_text(json.dumps(decisions))


def review(root: Path) -> None:
    pairs = read_pair_set(root / "set")
    write_review_page(pairs, root / "page.html", overwrite=True)
    decisions = read_decisions(root / "decisions.json", pairs)
    apply_review(pairs, root / "left", decisions=decisions, overwrite=True)


GRAPH = {
    f"a.mp4/00000{i}.png": [
        {"class": "cup", "bbox": [1, 2, 3, 4], "visible": True, "metadata": {"set": "train"},
         "attention_relationship": ["looking_at"], "spatial_relationship": ["behind"],
         "contacting_relationship": ["carrying" if i % 2 else "touching"]}
    ]
    for i in range(1, 4)
}  # fmt: skip
STEPS = {"database": {"v": {"annotations": [{"segment": [0, 3], "sentence": "cut it", "id": 0},
         {"segment": [4, 9], "sentence": "cook it", "id": 1}], "duration": 20}}}  # fmt: skip
THING = {"name": "cat", "names": ["cat"], "x": 1, "y": 2, "w": 3, "h": 4}
RELATIONS = [{"image_id": 1, "relationships": [
    {"predicate": "ON", "subject": THING, "object": {**THING, "name": "mat"}}]}]  # fmt: skip
LISTS = {"source": "mine", "rules": [{"kind": "color", "changes": "color",
         "templates": ["a {color} {object}"],
         "groups": [{"color": ["red", "blue"], "object": ["cup", "hat"]}]}]}  # fmt: skip
FETCHED = {"files": {"a.json": {"url": "http://x/a", "size": 2, "sha256": "0", "date": "x",
                                "mtime": 5},
                     "z.zip": {"url": "http://x/z", "size": 9, "sha256": "1", "date": "x",
                               "into": "x", "entries": ["b.jpg"],
                               "members": {"b.jpg": [5, "2", 7]}, "unpacked": 5}},
           "groups": {"a": ["a.json"]}, "commits": {"r": "c"}, "missing": {"b": "gone"},
           "complete": True}  # fmt: skip


def joined_folder() -> dict[str, Any]:
    import torch

    def make(root: Path) -> None:
        spec = JoinedSpec(Side("a", kind="timm"), Side("b"))
        heads = {"image.weight": torch.ones(3, 4), "text.weight": torch.ones(3, 5)}
        save_joined(root / "joined", spec, heads)

    return in_folder(make)


def tiny_folder() -> dict[str, Any]:
    return in_folder(lambda root: small_student().save(root, {}))


def read_tiny(root: Path) -> None:
    read_weights(root / "contrapose-tiny.safetensors")


def read_checkpoint(root: Path) -> None:
    read_state(root / "contrapose-tiny.safetensors", small_student().model.network)


def graph_pairs(root: Path) -> None:
    pair_graph(read_graph(root / "graph.json", ProblemList())[0])


def read_lists(root: Path) -> None:
    load_recipe(root / "lists.json").draw(4, 0)


def compare_fetched(root: Path) -> None:
    """Read a manifest of fetched files, and compare files by size and time, and by digest."""
    for hash_all in (False, True):
        manifest = read_manifest(root)
        compared = compare_files(manifest, hash_all=hash_all)
        store_times(manifest, compared.times)
        assert manifest.size >= 0 or manifest.files
        assert all(isinstance(manifest.has(path), bool) for path in manifest.files)


ARRAYS = {
    "train_images.npy": npy(np.ones((3, 4), np.float32)),
    "train_texts.npy": npy(np.ones((6, 5), np.float32)),
    "train_image_of_text.npy": npy(np.repeat(np.arange(3), 2)),
}
MORE: dict[str, tuple[Callable[[], dict[str, Any]], Reader]] = {
    "index": (index_folder, search_index),
    "pair set": (pair_folder, review),
    "graph": (lambda: {"graph.json": GRAPH}, graph_pairs),
    "steps": (lambda: {"s.json": STEPS}, lambda root: read_steps(root / "s.json", ProblemList())),
    "relationships": (
        lambda: {"relationships.json": RELATIONS,
                 "image_data.json": [{"image_id": 1, "width": 30, "height": 20}]},
        lambda root: list(read_relationships(root / "relationships.json", None, ProblemList())),
    ),
    "lists": (lambda: {"lists.json": LISTS}, read_lists),
    "manifest": (lambda: {"manifest.json": FETCHED, "a.json": b"{}", "x/b.jpg": b"12345"},
                 compare_fetched),
    "joined": (joined_folder, lambda root: read_joined(root / "joined")),
    "weights": (tiny_folder, read_tiny),
    "checkpoint": (tiny_folder, read_checkpoint),
    "features": (lambda: ARRAYS, lambda root: read_features(root, "train")),
    "training tar": (lambda: {"a.tar": training_tar()},
                     lambda root: read_training_set(root / "a.tar")),
    "zip": (lambda: {"x/a.zip": zipped()}, lambda root: unpack(root / "x")),
    "tar": (lambda: {"x/a.tar": zipped("tar")}, lambda root: unpack(root / "x")),
    "tgz": (lambda: {"x/a.tgz": zipped("tgz")}, lambda root: unpack(root / "x")),
}  # fmt: skip


def test_forged_indexes(tmp_path: Path, tally: Tally) -> None:
    count = fuzz(tmp_path, index_folder(), search_index, "forged index", mend=mend_index)
    tally.add("indexes, pair sets, models, manifests, archives", count)


@pytest.mark.parametrize("name", MORE)
def test_folders(name: str, tmp_path: Path, tally: Tally) -> None:
    make, read = MORE[name]
    tally.add(
        "indexes, pair sets, models, manifests, archives",
        fuzz(tmp_path, make(), read, name, rounds=FEW),
    )


HUGE = 10**400
CUT_HEADER = b"\x93NUMPY\x01\x00v\x00{'des" + b"[" * 117 + b"\n"
WRONG_SETS: tuple[dict[str, Any], ...] = (
    {"sha256": "no object"}, {"subset": []}, {"filters": {"made": "many"}},
    {"images": "png"}, {"images": {"quality": {}}}, {"unreadable": [1]},
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file", "value"),
    [
        ("mteb", "Winoground_predictions.json", {**MTEB, "default": {"test": [[[HUGE, 1]]]}}),
        ("lmms-eval", "20260131_120000_samples_mme.jsonl", [{**LMMS[0], "mme_score": HUGE}]),
        ("inspect json", "log.json", {**INSPECT, "samples": [
            {"id": 1, "scores": {"choice": {"value": HUGE}}}]}),
        ("vlmevalkit json", "llava_MMBench.json", [{**TABLE[0], "index": "9" * 5000}]),
        ("vlmevalkit csv", "llava_MMBench.csv", [{**TABLE[0], "hit": "inf"}]),
    ],
)  # fmt: skip
def test_known_faults_of_logs(name: str, file: str, value: Any, tmp_path: Path) -> None:
    for other, content in (LOGS[name] | {file: value}).items():
        write(tmp_path / other, content, None)
    with pytest.raises(ContraposeError):
        read_log(tmp_path)


def test_known_faults_of_folders(tmp_path: Path) -> None:
    for name, value in (index_folder() | {"index/vectors-1.npy": CUT_HEADER}).items():
        write(tmp_path / name, value, None)
    with pytest.raises(ContraposeError, match="damaged index"):
        search_index(tmp_path)
    pairs = pair_folder()
    for change in WRONG_SETS:
        manifest = {**pairs["set/manifest.json"], **change}
        for name, value in (pairs | {"set/manifest.json": manifest}).items():
            write(tmp_path / name, value, None)
        with pytest.raises(ContraposeError, match="manifest"):
            review(tmp_path)
    for path in (tmp_path / "graph.json",):
        write(path, {f"a.mp4/{'9' * 5000}.png": []}, None)
        with pytest.raises(ContraposeError):
            read_graph(path, StrictProblems())


@pytest.mark.parametrize("change", [{"made": "x"}, {"skipped": {"a": 1}}, {"rows": [0, True]}])
def test_run_of_another_type_is_damaged(change: dict[str, Any], tmp_path: Path) -> None:
    """Whoever forges a run folder gets its digests right."""
    files = run_folder()
    spec = copy.deepcopy(files["spec.json"])
    spec["runs"][0] |= change
    for name, value in (files | {"spec.json": spec}).items():
        write(tmp_path / name, value, None)
    mend_run(tmp_path)
    with pytest.raises(ContraposeError, match="damaged run folder"):
        read_runs(tmp_path)


def test_run_record_is_read_back(tmp_path: Path) -> None:
    """Without a change the run folder is read."""
    for name, value in run_folder().items():
        write(tmp_path / name, value, None)
    mend_run(tmp_path)
    (record,) = read_runs(tmp_path)
    assert isinstance(record, RunRecord)
    read_view(tmp_path)
