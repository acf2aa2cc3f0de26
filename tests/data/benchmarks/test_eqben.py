from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.data import Example, Macro, find_single_benchmark, open_image
from contrapose.data.benchmarks import eqben
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems
from tests.conftest import Cli

METRICS = ("text", "image", "group")

READERS = {"eqben": eqben.read, "eqben-mini": eqben.read_mini}


def read(root: Path, name: str = "eqben") -> list[Example]:
    return list(READERS[name](root, StrictProblems()))


def collect(root: Path, name: str = "eqben") -> tuple[list[Example], ProblemList]:
    problems = ProblemList()
    return list(READERS[name](root, problems)), problems


def pair(n: int, folder: str = "v") -> dict[str, object]:
    return {
        "image0": f"{folder}/{n}_a.png",
        "image1": f"{folder}/{n}_b.png",
        "caption0": f"first {n}",
        "caption1": f"second {n}",
    }


def listed(n: int) -> dict[str, object]:
    return pair(n) | {"caption0": [f"first {n}", "other"], "caption1": [f"second {n}"]}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))


def test_each_subset_has_its_own_nesting(tmp_path: Path) -> None:
    ag = {"vid1": {"s1": [listed(0), listed(1)], "s2": [listed(2)]}, "vid2": {"s1": [listed(3)]}}
    write(tmp_path / "ag.json", ag)
    write(tmp_path / "youcook2.json", {"vid": [pair(0), pair(1)]})
    write(tmp_path / "gebc.json", {"a": [pair(0)], "b": [pair(1)]})
    write(tmp_path / "kubric_location.json", [pair(0)])
    write(tmp_path / "sd.json", [pair(0)])
    examples = read(tmp_path)
    assert [e.id for e in examples] == [
        *(f"ag/{n}" for n in range(4)),
        "youcook2/0",
        "youcook2/1",
        "gebc/0",
        "gebc/1",
        "kubric_location/0",
        "sd/0",
    ]
    assert [e.texts for e in examples[:4]] == [(f"first {n}", f"second {n}") for n in range(4)]
    assert {e.match for e in examples} == {((True, False), (False, True))}
    assert examples[4].tags == {"subset": "youcook2"}
    assert examples[0].images[0].key != examples[8].images[0].key


def test_released_names_and_folders_are_understood(tmp_path: Path) -> None:
    write(
        tmp_path / "annotations" / "eqbenkubric_cnt.json", [pair(0, "eqbenkubric_cnt/x"), pair(1)]
    )
    folder = tmp_path / "image" / "eqbenkubric_cnt"
    folder.mkdir(parents=True)
    first, second = read(tmp_path)
    assert first.tags["subset"] == "kubric_counting"
    assert first.images[0].path == folder / "x" / "0_a.png"
    assert first.images[0].key == "kubric_counting/x/0_a.png"
    assert second.images[1].path == folder / "v" / "1_b.png"


def test_youcook2_arrays_are_blue_first(tmp_path: Path) -> None:
    record = pair(0) | {"image0": "v/0_a.npy"}
    write(tmp_path / "youcook2.json", {"v": [record]})
    position = tmp_path / "images" / "eqbenyoucook2" / "v"
    position.mkdir(parents=True)
    np.save(position / "0_a.npy", np.full((2, 3, 3), (200, 100, 50), dtype=np.uint8))
    (example,) = read(tmp_path)
    assert open_image(example.images[0]).getpixel((0, 0)) == (50, 100, 200)


def test_the_shuffled_file_is_put_back_in_order(tmp_path: Path) -> None:
    rows = []
    for dataset, folder, number in (("eqbensd", "eqbensd", 7), ("eqbenag", "eqbenag", 1)):
        for sample in (number, number - 1):
            for name in ("c1i1", "c0i1", "c1i0", "c0i0"):
                rows.append(
                    {
                        "image": f"{folder}/{sample}_{name[3]}.png",
                        "caption": f"caption {name[1]} of {sample}",
                        "private_info": {
                            "dataset": dataset,
                            "sample_cnt": sample,
                            "name": name,
                        },
                    }
                )
    write(tmp_path / "ann_json_finegrained_random.json", rows)
    examples = read(tmp_path)
    assert [e.id for e in examples] == ["ag/0", "ag/1", "sd/0", "sd/1"]
    assert examples[2].texts == ("caption 0 of 6", "caption 1 of 6")
    assert [ref.key for ref in examples[2].images] == ["sd/6_0.png", "sd/6_1.png"]


def test_a_pair_missing_from_the_shuffled_file_keeps_the_numbers(tmp_path: Path) -> None:
    def row(sample: int, name: str) -> dict[str, object]:
        info = {"dataset": "eqbensd", "sample_cnt": sample, "name": name}
        return {"image": f"eqbensd/{sample}.png", "caption": "c", "private_info": info}

    rows = [row(0, "c0i0"), row(1, "c0i0"), row(1, "c1i1")]
    write(tmp_path / "ann_json_finegrained_random.json", rows)
    examples, problems = collect(tmp_path)
    assert [e.id for e in examples] == ["sd/1"]
    assert "'image1' is missing" in problems.problems[0].message


def test_shuffled_rows_without_their_key_are_malformed(tmp_path: Path) -> None:
    write(tmp_path / "ann_json_finegrained_random.json", [{"image": "eqbensd/0", "caption": "c"}])
    with pytest.raises(InputError, match="'private_info' is missing"):
        read(tmp_path)
    info = {"dataset": "other", "sample_cnt": 0, "name": "c0i0"}
    rows = [{"image": "a", "caption": "c", "private_info": info}]
    write(tmp_path / "ann_json_finegrained_random.json", rows)
    with pytest.raises(InputError, match="not a pair of EqBen"):
        read(tmp_path)


def write_submission(
    folder: Path, counts: dict[str, int], rng: np.random.Generator
) -> list[tuple[str, int, int]]:
    """Write the authors' three files in a random order; return the pair of each row."""
    infos, rows, pairs = [], [], []
    for start, (subset, number) in zip(
        np.cumsum([0, *counts.values()]).tolist(), counts.items(), strict=False
    ):
        official = eqben.OFFICIAL_NAMES[subset]
        for k in range(number):
            for name in eqben.PAIR_NAMES:
                caption, image = int(name[1]), int(name[3])
                infos.append({"dataset": official, "sample_cnt": start + k, "name": name})
                row = {"image": f"{official}/{k}_{image}.png", "caption": f"caption {caption} {k}"}
                rows.append(row)
                pairs.append((f"{subset}/{k}", image, caption))
    order = rng.permutation(len(rows)).tolist()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ann_json_finegrained_random.json").write_text(json.dumps([rows[i] for i in order]))
    (folder / "private_info.json").write_text(json.dumps(infos))
    (folder / "private_random_idx.json").write_text(json.dumps(order))
    return [pairs[i] for i in order]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=20)
def test_the_authors_index_files_recover_any_order(seed: int, ag: int, sd: int) -> None:
    with TemporaryDirectory() as name:
        root, rng = Path(name), np.random.default_rng(seed)
        pairs = write_submission(root / "ann", {"ag": ag, "sd": sd}, rng)
        assert eqben.read_submission(root, StrictProblems()) == pairs
        examples = read(root)
    ids = [*(f"ag/{k}" for k in range(ag)), *(f"sd/{k}" for k in range(sd))]
    assert [example.id for example in examples] == ids
    for example in examples:
        k = example.id.split("/")[1]
        assert [ref.key for ref in example.images] == [f"{example.id}_0.png", f"{example.id}_1.png"]
        assert example.texts == (f"caption 0 {k}", f"caption 1 {k}")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("private_random_idx.json", None, "private_random_idx.json beside it"),
        ("private_info.json", None, "private_info.json beside it"),
        ("private_random_idx.json", "[0, 1, 2]", "3 positions for 16 rows"),
        ("private_random_idx.json", str([0] * 16), "permutation"),
        ("private_random_idx.json", str([*range(1, 17)]), "permutation"),
        ("private_random_idx.json", "{}", "whole numbers"),
        ("private_random_idx.json", str([0.5] * 16), "whole numbers"),
        ("private_info.json", "[]", "0 entries"),
        ("private_info.json", "{}", "no list"),
        ("private_info.json", str([1] * 16), "expected an object"),
        ("private_random_idx.json", "[0", "not valid JSON"),
    ],
)
def test_bad_index_files_are_refused(
    tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    write_submission(tmp_path, {"ag": 2, "sd": 2}, np.random.default_rng(0))
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    for reader in (read, lambda root: eqben.read_submission(root, StrictProblems())):
        with pytest.raises(InputError, match=words) as error:
            reader(tmp_path)
        assert len(str(error.value).splitlines()) == 1


def test_index_files_of_another_list_are_refused(tmp_path: Path) -> None:
    write_submission(tmp_path, {"ag": 8, "sd": 8}, np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(64).tolist()
    (tmp_path / "private_random_idx.json").write_text(json.dumps(order))
    with pytest.raises(InputError, match="does not belong"):
        read(tmp_path)


def test_without_index_files_the_global_file_is_read(tmp_path: Path) -> None:
    write_submission(tmp_path, {"sd": 2}, np.random.default_rng(0))
    (tmp_path / "private_random_idx.json").unlink()
    write(tmp_path / "private_info_global.json", [pair(0, "eqbensd")])
    assert [example.id for example in read(tmp_path)] == ["sd/0"]


def test_fiber_scores_in_the_authors_layout_give_the_papers_figures(
    shared: Path, tmp_path: Path, cli: Cli
) -> None:
    arrays = {name: np.load(shared / f"eqben_fiber/{name}.npy") for name in ("gebc", "sd")}
    counts = {name: len(array) for name, array in arrays.items()}
    pairs = write_submission(tmp_path, counts, np.random.default_rng(0))
    of = {f"{name}/{k}": array[k] for name, array in arrays.items() for k in range(len(array))}
    np.save(tmp_path / "prediction.npy", np.array([of[name][i, j] for name, i, j in pairs]))
    command = ("metrics", "eqben", "--root", tmp_path, "--scores", tmp_path / "prediction.npy")
    results = json.loads(cli(*command, "--resamples", 100, "--json").out)
    figures = {
        name: [round(100 * results["subsets"][name][m]["value"], 2) for m in METRICS]
        for name in arrays
    }
    assert figures == {"gebc": [25.19, 22.66, 11.08], "sd": [86.05, 88.63, 79.97]}


def test_one_file_for_all_subsets(tmp_path: Path) -> None:
    records = [pair(0, "eqbensd"), pair(0, "eqbenag"), pair(1, "eqbensd"), pair(0, "elsewhere")]
    write(tmp_path / "private_info_global.json", records)
    examples, problems = collect(tmp_path)
    assert [e.id for e in examples] == ["sd/0", "ag/0", "sd/1"]
    assert "'elsewhere' is not a subset" in problems.problems[0].message


def test_a_malformed_record_is_named_and_keeps_its_number(tmp_path: Path) -> None:
    broken = {key: value for key, value in pair(1).items() if key != "caption1"}
    write(tmp_path / "sd.json", [pair(0), broken, pair(2)])
    with pytest.raises(InputError, match=r"line 8: .*'caption1' is missing"):
        read(tmp_path)
    examples, problems = collect(tmp_path)
    assert [e.id for e in examples] == ["sd/0", "sd/2"]
    assert [(p.kind, p.line) for p in problems.problems] == [("malformed record", 8)]


def test_a_video_that_is_no_list_is_malformed(tmp_path: Path) -> None:
    write(tmp_path / "ag.json", {"bad": "text", "good": {"s": [listed(0)]}})
    examples, problems = collect(tmp_path)
    assert [e.id for e in examples] == ["ag/0"]
    assert "record bad: expected a list or an object" in problems.problems[0].message


@pytest.mark.parametrize("name", ["../x.png", "eqbensd/../../x.png", "/etc/x.png"])
def test_images_stay_inside(tmp_path: Path, name: str) -> None:
    write(tmp_path / "sd.json", [pair(0) | {"image1": name}])
    with pytest.raises(InputError, match=r"climbs out|absolute"):
        read(tmp_path)


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds none of ann_json.*ag\.json"):
        read(tmp_path)


def test_mini_takes_the_subset_from_the_path(tmp_path: Path) -> None:
    records = [pair(0, "eqbenkubric_attr"), pair(1, "eqbenyoucook2/v"), pair(2, "new")]
    write(tmp_path / "eqben_vllm" / "all_select.json", records)
    examples = read(tmp_path, "eqben-mini")
    assert [e.id for e in examples] == ["0", "1", "2"]
    assert [e.tags["subset"] for e in examples] == ["kubric_attribute", "youcook2", "new"]
    assert [e.images[0].channels for e in examples] == ["rgb", "bgr", "rgb"]
    images = tmp_path / "eqben_vllm" / "images"
    assert examples[1].images[0].path == images / "eqbenyoucook2" / "v" / "1_a.png"
    assert examples[2].images[1].path == images / "new" / "2_b.png"


def test_mini_reports_malformed_records(tmp_path: Path) -> None:
    write(tmp_path / "all_select.json", [{"image0": "../../x"}, pair(1, "eqbensd")])
    examples, problems = collect(tmp_path, "eqben-mini")
    assert [e.id for e in examples] == ["1"]
    assert "climbs out" in problems.problems[0].message
    with pytest.raises(InputError, match=r"all_select\.json, line 2"):
        read(tmp_path, "eqben-mini")


def test_card_counts_are_those_of_the_released_scores(shared: Path) -> None:
    card = find_single_benchmark("eqben").card
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in shared.glob("eqben_fiber/*.npy")}
    assert {name: array.shape for name, array in arrays.items()} == {
        name: (number, 2, 2) for name, number in card.counts.items()
    }


def test_card_groups_name_subsets() -> None:
    card = find_single_benchmark("eqben").card
    assert isinstance(card.aggregation, Macro)
    assert set(card.aggregation.groups["kubric"]) < set(card.counts)
