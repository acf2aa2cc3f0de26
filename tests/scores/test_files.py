"""Likelihoods in any of three forms become log-likelihoods, or are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from contrapose.data import Example, ImageRef, find_single_benchmark
from contrapose.data.examples import single_match
from contrapose.errors import InputError
from contrapose.scores import (
    build_frame,
    detect_benchmark,
    read_prior,
    read_scores,
)


def example(name: str, image: str, texts: tuple[str, ...], **tags: str) -> Example:
    ref = ImageRef(image, Path(image))
    return Example(name, (ref,), texts, single_match(len(texts), 0), tags)


MIXED = [
    example("a", "1.jpg", ("a dog", "a cat"), subset="two"),
    example("b", "1.jpg", ("a dog", "a cat", "a cow"), subset="three"),
]


def own_card(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text('{"id": "a", "images": ["1.jpg"], "texts": ["a dog", "a cat"], "right": 0}\n')
    return path


def test_frame_pads_and_clusters() -> None:
    frame = build_frame(MIXED)
    assert frame.match.shape == (2, 1, 3)
    assert frame.present[:, 0].tolist() == [[True, True, False], [True, True, True]]
    assert frame.clusters is not None
    assert frame.clusters[0] == frame.clusters[1]


def test_frame_refuses_duplicate_ids_and_no_examples() -> None:
    with pytest.raises(InputError, match="two examples have the id 'a'"):
        build_frame([MIXED[0], MIXED[0]])
    with pytest.raises(InputError, match="no valid example"):
        build_frame([])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json"])
def test_general_table_by_position_and_by_name(tmp_path: Path, suffix: str) -> None:
    card = find_single_benchmark(str(own_card(tmp_path))).card
    rows = [
        ("a", "1.jpg", "a cat", 0.1), ("a", "1.jpg", "a dog", 0.2),
        ("b", 0, 2, 0.3), ("b", 0, 1, 0.4), ("b", 0, 0, 0.5),
    ]  # fmt: skip
    path = tmp_path / f"scores{suffix}"
    names = ("example", "image", "text", "score")
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    if suffix == ".csv":
        path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]))
    elif suffix == ".json":
        path.write_text(json.dumps(objects))
    else:
        path.write_text("\n".join(map(json.dumps, objects)))
    answers = read_scores(path, card, build_frame(MIXED))
    assert answers.scores[0, 0, :2].tolist() == [0.2, 0.1]
    assert answers.scores[1, 0].tolist() == [0.5, 0.4, 0.3]


def test_captions_that_are_numbers_are_not_read_as_positions(tmp_path: Path) -> None:
    card = find_single_benchmark(str(own_card(tmp_path))).card
    match = single_match(3, 0)
    counted = [Example("a", (ImageRef("1.jpg", Path("1.jpg")),), ("0", "2", "12"), match)]
    path = tmp_path / "scores.csv"
    path.write_text("example,text,score\na,0,0.1\na,12,0.2\na,1,0.3\n")
    frame = build_frame(counted)
    assert read_scores(path, card, frame).scores[0, 0].tolist() == [0.1, 0.3, 0.2]
    path.write_text("example,text,score\na,0,0.1\na,2,0.2\na,12,0.3\n")
    with pytest.raises(InputError, match=r"line 3: .*'2' is both the name of caption 1"):
        read_scores(path, card, frame)
    path = tmp_path / "scores.jsonl"
    rows = [{"example": "a", "text": i, "score": i / 10} for i in range(3)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_scores(path, card, frame).scores[0, 0].tolist() == [0.0, 0.1, 0.2]
    path.write_text("\n".join(json.dumps({**row, "score": "1_0"}) for row in rows))
    with pytest.raises(InputError, match=r"line 1: .*'1_0'"):
        read_scores(path, card, frame)


def test_arrays_follow_the_order_of_the_files_not_their_keys(tmp_path: Path) -> None:
    """SugarCrepe's swap_obj lacks the key 108: row 108 is the record with the key 109."""
    card = find_single_benchmark("sugarcrepe").card
    examples = [
        example(f"swap_obj/{key}", f"{key}.jpg", ("x", "y"), subset="swap_obj")
        for key in (106, 107, 109)
    ]
    np.save(tmp_path / "swap_obj.npy", np.arange(6.0).reshape(3, 2))
    answers = read_scores(tmp_path / "swap_obj.npy", card, build_frame(examples))
    assert answers.scores[2, 0].tolist() == [4.0, 5.0]
    np.save(tmp_path / "swap_obj.npy", np.zeros((4, 1, 2)))
    with pytest.raises(InputError, match=r"4 examples of swap_obj, .*3"):
        read_scores(tmp_path / "swap_obj.npy", card, build_frame(examples))


def test_partial_leaves_out_whole_examples_only(tmp_path: Path) -> None:
    card = find_single_benchmark(str(own_card(tmp_path))).card
    path = tmp_path / "scores.csv"
    path.write_text("example,text,score\na,0,0.5\na,1,0.25\n")
    answers = read_scores(path, card, build_frame(MIXED), partial=True)
    assert answers.frame.ids == ("a",)
    assert answers.notes == ("scores cover 1 of 2 examples",)
    path.write_text("example,text,score\na,0,0.5\na,1,0.25\nb,0,0.5\n")
    with pytest.raises(InputError, match=r"example b: .* caption 1 is missing"):
        read_scores(path, card, build_frame(MIXED), partial=True)


def test_half_precision_is_widened(tmp_path: Path) -> None:
    np.save(tmp_path / "scores.npy", np.ones((400, 2, 2), dtype=np.float16))
    answers = read_scores(tmp_path / "scores.npy", find_single_benchmark("winoground").card, None)
    assert answers.scores.dtype == np.float32


def test_prior_has_one_value_per_caption(tmp_path: Path) -> None:
    card = find_single_benchmark("winoground").card
    scores = tmp_path / "scores.npy"
    np.save(scores, np.zeros((400, 2, 2)))
    frame = read_scores(scores, card, None).frame
    rows = tmp_path / "prior.jsonl"
    labels = [(i, c) for i in range(400) for c in range(2)]
    rows.write_text(
        "\n".join(json.dumps({"label": f"{i}_c{c}", "score": -i - c / 2}) for i, c in labels)
    )
    array = tmp_path / "prior.npy"
    expected = np.array([[-i, -i - 0.5] for i in range(400)])
    np.save(array, expected)
    assert np.array_equal(read_prior(rows, card, frame), expected)
    assert np.array_equal(read_prior(array, card, frame), expected)
    rows.write_text(json.dumps({"label": "0_c0_i1", "score": -1}))
    with pytest.raises(InputError, match="one value a caption"):
        read_prior(rows, card, frame)


def test_detect_benchmark(tmp_path: Path) -> None:
    rows = tmp_path / "s.jsonl"
    rows.write_text('{"label": "0_c1_i0", "score": 1}\n')
    assert detect_benchmark(rows) == "winoground"
    rows.write_text('{"label": "0_f", "score": 1}\n')
    assert detect_benchmark(rows) == "valse"
    rows.write_text('{"example": "0", "score": 1}\n')
    assert detect_benchmark(rows) is None
    np.save(tmp_path / "youcook2.npy", np.zeros((1, 2, 2)))
    np.save(tmp_path / "gebc.npy", np.zeros((1, 2, 2)))
    assert detect_benchmark(tmp_path) == "eqben"
