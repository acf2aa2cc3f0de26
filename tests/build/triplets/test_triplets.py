"""SIMAT's construction: filters, queries, oracle, squares, files that the reader takes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import contrapose as cp
from contrapose.build.triplets.construction import Region, TripletRecipe, filter_regions
from contrapose.build.triplets.sources import read_relationships, square_box
from contrapose.build.triplets.writer import describe_triplet
from contrapose.data import EditSet, ImageRef, open_images
from contrapose.data.benchmarks.simat import BENCHMARK, ORACLE, read
from contrapose.data.check import check_data
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.world.benchmark import parse_caption
from tests.conftest import Cli
from tests.fakes import Tower

LINES = (
    "1 man:SITTING ON:chair man:sitting on:chair car:on:road",
    "2 man:sitting on a:chair woman:sitting on:chair",
    "3 woman:sitting on:chair",
    "4 man:touching:chair man:biting:apple",
    "5 man:touching:chair",
    "6 man:sitting on:bench man:touching:bench",
    "7 man:sitting on:bench man:touching:bench",
)


def relationship(text: str) -> dict[str, Any]:
    subject, predicate, thing = text.split(":")
    return {
        "predicate": predicate,
        "subject": {"name": subject, "x": 4, "y": 6, "w": 10, "h": 8},
        "object": {"names": [thing, "other"], "x": 20, "y": 2, "w": 6, "h": 30},
    }


@pytest.fixture
def genome(tmp_path: Path) -> Path:
    """Folder with relationships in the style of Visual Genome, sizes and photographs."""
    records, sizes = [], []
    (tmp_path / "VG_100K").mkdir()
    for line in LINES:
        number, *rest = line.replace(" a:", "_a:").replace("SITTING ON", "SITTING_ON").replace(
            "sitting on", "sitting_on"
        ).split()  # fmt: skip
        triplets = [relationship(one.replace("_", " ")) for one in rest]
        records.append({"image_id": int(number), "relationships": triplets})
        sizes.append({"image_id": int(number), "width": 64, "height": 40})
        image = Image.new("RGB", (64, 40), (30 * int(number), 10, 10))
        image.save(tmp_path / "VG_100K" / f"{number}.jpg")
    (tmp_path / "relationships.json").write_text(json.dumps(records))
    (tmp_path / "image_data.json").write_text(json.dumps(sizes))
    return tmp_path


def test_counts_at_every_filter(genome: Path, tmp_path: Path) -> None:
    manifest = cp.build_triplets(
        genome / "relationships.json", out=tmp_path / "out", images=genome, min_images=2
    )
    assert list(manifest["regions"].values()) == [13, 12, 12, 11, 10, 10, 10]
    data = read(tmp_path / "out", StrictProblems())
    assert isinstance(data, EditSet)
    assert data.captions == (
        "A man sitting on a bench.", "A man sitting on a chair.", "A man touching a bench.",
        "A man touching a chair.", "A woman sitting on a chair.",
    )  # fmt: skip
    assert Counter(data.caption_of) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2}
    # Photographs 2, 6 and 7 show two triplets, so that one is no target of the other.
    shown = {2: {1, 4}, 6: {0, 2}, 7: {0, 2}}
    for query in data.queries:
        photograph = int(data.images[query.image].key)
        assert query.target_caption not in shown.get(photograph, {query.caption})
    changes = Counter((query.source, query.target) for query in data.queries)
    assert changes["chair", "bench"] == 4
    assert changes["man", "woman"] == 1
    assert manifest["written"]["queries"] == len(data.queries) == sum(changes.values())
    often = Counter(query.source for query in data.queries)
    assert all(query.weight == often[query.source] ** -0.5 for query in data.queries)
    opened = open_images(data.images)
    assert {image.size for image in opened} == {(30, 30)}
    assert not check_data(BENCHMARK, tmp_path / "out").problems
    halves: dict[str, set[str]] = {}
    for query in data.queries:
        halves.setdefault(str(query.tags["split"]), set()).add(data.images[query.image].key)
    assert len(set.intersection(*halves.values())) == 0
    again = cp.build_triplets(
        genome / "relationships.json", out=tmp_path / "again", images=genome, min_images=2
    )
    assert again == manifest
    for name in ("transfos.csv", "triplets.csv", "captions.txt", "retrieval_db.tsv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


class Judge(Tower):
    """Sees a chair in the photographs up to 4 alone, and everything else everywhere."""

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        values = []
        for image, text in zip(images, texts, strict=True):
            chairs = image.getpixel((0, 0))[0] < 135  # type: ignore[index]
            values.append(4.0 if ("chair" in text) == chairs else -4.0)
        return torch.tensor(values)


def test_an_oracle_filters_queries(genome: Path, tmp_path: Path) -> None:
    manifest = cp.build_triplets(
        genome / "relationships.json", out=tmp_path / "out", oracle=Judge(), cache=False
    )
    data = read(tmp_path / "out", StrictProblems())
    assert "itm" in manifest["parameters"]["oracle"]
    assert {query.tags["field"] for query in data.queries} == {"obj"}
    counts = list(manifest["queries"].values())
    assert counts[0] > counts[1] > counts[2] == len(data.queries)


def test_scenes_have_exact_truth(tmp_path: Path) -> None:
    manifest = cp.build_triplets("scenes", out=tmp_path / "out", scenes=80, size=32, min_images=1)
    data = read(tmp_path / "out", StrictProblems())
    assert (tmp_path / "out" / ORACLE).is_file()
    assert manifest["written"]["queries"] == len(data.queries) > 50
    fits = data.fits()
    for query in data.queries:
        assert fits[query.image, query.caption]
        assert not fits[query.image, query.target_caption]
        assert fits[:, query.target_caption].any()
    assert all(parse_caption(text) is not None for text in data.captions)
    assert {query.tags["field"] for query in data.queries} == {"subj", "rel", "obj"}
    run = cp.evaluate(
        "tiny-clip", on="simat", root=tmp_path / "out", score="itc:text", cache=False,
        limit=20, resamples=100,
    )  # fmt: skip
    assert isinstance(run, cp.Run)
    assert ORACLE in " ".join(run.results.notes)


@given(*(st.integers(0, 99) for _ in range(4)))
@settings(deadline=None)
def test_squares(left: int, top: int, width: int, height: int) -> None:
    union = (left, top, min(100, left + width + 1), min(80, top + height + 1))
    if union[1] >= union[3]:
        return
    a, b, c, d = square_box(union, 100, 80)
    assert 0 <= a <= union[0] < union[2] <= c <= 100
    assert 0 <= b <= union[1] < union[3] <= d <= 80
    side = max(union[2] - union[0], union[3] - union[1])
    assert (c - a, d - b) == (side, min(side, 80))


def regions(*triplets: tuple[str, str, str]) -> list[Region]:
    image = ImageRef("0", Path("0.jpg"))
    return [Region(i, i, triplet, (0, 0, 1, 1), image) for i, triplet in enumerate(triplets)]


def test_the_most_frequent_objects_are_kept() -> None:
    things = [("man", "biting", f"t{k}") for k in range(4) for _ in range(k + 1)]
    other = [("man", "licking", f"t{k}") for k in range(4)]
    kept, counts = filter_regions(regions(*things, *other), TripletRecipe(objects=2, min_images=1))
    assert {region.triplet[2] for region in kept if region.triplet[1] == "biting"} == {"t2", "t3"}
    assert counts["2 most frequent objects"] == 7 + 2
    with pytest.raises(InputError, match="object with 2 relations"):
        filter_regions(regions(*things), TripletRecipe())


def test_captions_of_triplets() -> None:
    assert describe_triplet(("elephant", "eating from", "bucket")) == (
        "An elephant eating from a bucket."
    )
    assert describe_triplet(("people", "running in", "grass")) == "People running in grass."


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda records: records[0].pop("image_id"), "image_id"),
        (lambda records: records[0].update(relationships={}), "must be a list"),
        (lambda records: records[1]["relationships"][0]["subject"].pop("x"), "'x' is missing"),
        (lambda records: records[1]["relationships"][0].update(predicate=3), "must be text"),
        (lambda records: records.clear(), "no triplet is left"),
    ],
)
def test_malformed_annotations(
    genome: Path, tmp_path: Path, change: Callable[[list[Any]], object], what: str
) -> None:
    path = genome / "relationships.json"
    records = json.loads(path.read_text())
    change(records)
    path.write_text(json.dumps(records))
    with pytest.raises(InputError, match=what):
        cp.build_triplets(path, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_built(genome: Path, tmp_path: Path) -> None:
    path = genome / "relationships.json"
    (genome / "image_data.json").unlink()
    # Sizes come from the photographs; without those too they are not known.
    assert next(read_relationships(path, genome, StrictProblems())).box == (0, 2, 30, 32)
    with pytest.raises(InputError, match="size of photograph 1"):
        cp.build_triplets(path, out=tmp_path / "out", images=tmp_path / "nowhere")
    (genome / "VG_100K" / "1.jpg").write_bytes(b"no image")
    with pytest.raises(InputError, match="cannot be read"):
        cp.build_triplets(path, out=tmp_path / "out", images=genome)
    with pytest.raises(InputError, match="their own images"):
        cp.build_triplets("scenes", out=tmp_path / "out", images=genome)
    with pytest.raises(InputError, match="present"):
        cp.build_triplets("scenes", out=tmp_path / "out", present=2)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="out"):
        cp.build_triplets("scenes", out=tmp_path / "out", scenes=10)
    assert [item.name for item in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_dry_run_counts_and_writes_nothing(genome: Path, tmp_path: Path, cli: Cli) -> None:
    path, out = genome / "relationships.json", tmp_path / "out"
    counted = cp.build_triplets(path, out=out, min_images=1, dry_run=True)
    assert not out.exists()
    result = cli(
        "build", "triplets", str(path), "--min-images", "1", "--out", str(out), "--dry-run",
        "--oracle", "no-such-model",
    )  # fmt: skip
    assert result.status == 0
    assert not out.exists()
    assert "nothing was written" in result.out
    assert "no-such-model was not asked" in result.out
    assert counted == cp.build_triplets(path, out=out, min_images=1)
    assert (out / "transfos.csv").is_file()
