"""The user's own table: JSON lines, CSV, TSV, Parquet, and everything wrong with them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import Example, open_image
from contrapose.data.benchmarks import user_file
from contrapose.data.benchmarks.user_file import load_user_benchmark
from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, Record, StrictProblems

PAIR: dict[str, Any] = {
    "id": "7",
    "images": ["a.png", "sub/b.png"],
    "texts": ["a red cup", "a blue cup"],
    "match": [[True, False], [False, True]],
    "tags": {"subset": "colour"},
}
CHOICE: dict[str, Any] = {"images": ["a.png"], "texts": ["x", "y", "z"], "right": 2}


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in records))
    return path


def examples(path: Path, problems: Problems | None = None) -> list[Example]:
    data = load_user_benchmark(path).read(path.parent, problems or StrictProblems())
    return list(data)  # type: ignore[arg-type]


def test_pairs(tmp_path: Path) -> None:
    (example,) = examples(lines(tmp_path / "mine.jsonl", PAIR))
    assert example.id == "7"
    assert example.texts == ("a red cup", "a blue cup")
    assert example.match == ((True, False), (False, True))
    assert example.tags == {"subset": "colour"}
    assert [image.key for image in example.images] == ["a.png", "sub/b.png"]
    assert [image.path for image in example.images] == [tmp_path / "a.png", tmp_path / "sub/b.png"]


def test_one_image_with_one_right_caption(tmp_path: Path) -> None:
    single = {"image": "a.png", "texts": ["x", "y"], "right": 0, "id": 12, "comment": "ignored"}
    first, second = examples(lines(tmp_path / "mine.jsonl", CHOICE, single))
    assert (first.id, first.match) == ("0", ((False, False, True),))
    assert (second.id, second.match) == ("12", ((True, False),))


def test_one_image_with_one_caption(tmp_path: Path) -> None:
    row = {"image": "a.png", "texts": ["x"]}
    labels = (True, False, 1, "0", "true")
    rows = [{**row, "id": str(i), "label": label} for i, label in enumerate(labels)]
    file = lines(tmp_path / "mine.jsonl", *rows, {**row, "id": "5", "match": [[False]]})
    matches = [example.match[0][0] for example in examples(file)]
    assert matches == [True, False, True, False, True, False]
    assert load_user_benchmark(file).card.family == "judgement"
    with pytest.raises(InputError, match="true or false"):
        examples(lines(tmp_path / "bad.jsonl", {**row, "label": "perhaps"}))


def test_the_card_of_a_choice(tmp_path: Path) -> None:
    two = {**CHOICE, "texts": ["x", "y"], "right": 0, "tags": {"kind": "a"}}
    path = lines(tmp_path / "mine.jsonl", CHOICE, two)
    card = load_user_benchmark(path).card
    assert (card.name, card.family, card.match) == (str(path), "choice", None)
    assert card.shape == "1 × 2, 1 × 3"
    assert card.chance == {"accuracy": (1 / 3 + 1 / 2) / 2}
    assert (list(card.tags), card.by) == (["kind"], ())


def test_the_card_of_pairs(tmp_path: Path) -> None:
    card = load_user_benchmark(lines(tmp_path / "mine.jsonl", PAIR)).card
    assert (card.family, card.shape, card.by) == ("pairs", "2 × 2", ("subset",))
    assert card.chance == {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6}


@pytest.mark.parametrize(
    "odd",
    [
        CHOICE,
        {"images": ["a.png"], "texts": ["x", "y", "z"], "match": [[True, False, True]]},
        {**PAIR, "match": [[False, True], [True, False]]},
    ],
)
def test_mixed_shapes_are_pairs_without_a_chance(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = lines(tmp_path / "mine.jsonl", PAIR, odd)
    card = load_user_benchmark(path).card
    assert card.family == "pairs"
    assert card.chance == {}
    assert len(examples(path)) == 2


def test_a_late_example_of_another_shape_decides_too(tmp_path: Path) -> None:
    assert (
        load_user_benchmark(lines(tmp_path / "m.jsonl", *[CHOICE] * 9, PAIR)).card.family == "pairs"
    )


def test_a_malformed_first_record_does_not_decide(tmp_path: Path) -> None:
    card = load_user_benchmark(lines(tmp_path / "m.jsonl", {"images": []}, PAIR)).card
    assert card.family == "pairs"
    empty = load_user_benchmark(lines(tmp_path / "e.jsonl")).card
    assert (empty.shape, empty.chance) == ("empty", {})


def test_another_root(tmp_path: Path) -> None:
    path = lines(tmp_path / "mine.jsonl", CHOICE)
    (tmp_path / "photos").mkdir()
    (example,) = load_user_benchmark(path).read(tmp_path / "photos", StrictProblems())  # type: ignore[misc]
    assert isinstance(example, Example)
    assert example.images[0].path == tmp_path / "photos" / "a.png"
    with pytest.raises(InputError, match="is not a folder"):
        load_user_benchmark(path).read(tmp_path / "none", StrictProblems())


def test_duplicate_ids_are_still_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "mine.jsonl", PAIR, PAIR)
    assert [example.id for example in examples(path)] == ["7", "7"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"right": 3}, "'right' is 3, and there are 3 captions, from 0"),
        ({"right": -1}, "'right' is -1"),
        ({"right": 0.5}, "'right' must be a whole number"),
        ({"right": None}, "'match' is missing, and so is 'right'"),
        ({"images": []}, "there are no images"),
        ({"images": None}, "there are no images"),
        ({"images": "a.png"}, "'images' must be a list"),
        ({"images": [1]}, "'images' must be names"),
        ({"images": ["../a.png"]}, "climbs out"),
        ({"images": ["C:\\a.png"]}, "is absolute"),
        ({"images": ["a.png", "b.png"]}, "'match' is missing."),
        ({"texts": ["x", " ", "z"]}, "'texts' must be texts, and none empty"),
        ({"texts": []}, "there are 0 captions"),
        ({"texts": {"0": "x"}}, "'texts' must be a list"),
        ({"match": [[True, False]]}, "match must be 1 rows (images) of 3 (captions)"),
        ({"match": [[1, 0, 0], [0, 1, 0]]}, "match must be 1 rows"),
        ({"match": [True, False, False]}, "'match' must be a list of rows"),
        ({"match": [[2, 0, 0]]}, "'match' must hold true and false"),
        ({"match": [[False, False, False]]}, "no image of 'match' belongs to a caption"),
        ({"tags": ["colour"]}, "'tags' must be an object"),
        ({"tags": {"subset": {"a": 1}}}, "the tag 'subset' must be text"),
        ({"id": [1]}, "'id' must be text"),
    ],
)
def test_a_malformed_record(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    path = lines(tmp_path / "mine.jsonl", CHOICE, {**CHOICE, **change}, CHOICE)
    with pytest.raises(InputError) as refused:
        examples(path)
    assert f"{path}, line 2: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    assert [example.id for example in examples(path, problems)] == ["0", "2"]
    assert [problem.line for problem in problems.problems] == [2]


def test_lines_that_are_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('[1]\n"x"\n{"images": ["a.png"]\n')
    problems = ProblemList()
    assert examples(path, problems) == []
    assert [problem.line for problem in problems.problems] == [1, 2, 3]
    assert "expected an object" in problems.problems[0].message


@pytest.mark.parametrize(("suffix", "comma"), [("csv", ","), ("tsv", "\t")])
def test_lists_in_cells(tmp_path: Path, suffix: str, comma: str) -> None:
    path = tmp_path / f"mine.{suffix}"
    rows = [PAIR, {**PAIR, "id": "8", "tags": ""}]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, PAIR.keys(), delimiter=comma)
        writer.writeheader()
        for row in rows:
            cells = {k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()}
            writer.writerow(cells)
    first, second = examples(path)
    assert (first.id, first.texts, first.match) == (
        "7",
        tuple(PAIR["texts"]),
        tuple(tuple(row) for row in PAIR["match"]),
    )
    assert (first.tags, second.tags) == ({"subset": "colour"}, {})


def test_lists_as_pandas_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "images,texts,match\n"
        '"[\'a.png\', \'b.png\']","[\'one cup\', ""two o\'clock""]",'
        '"[[True, False], [False, True]]"\n'
        '"__import__(\'os\').getcwd()","[\'x\']","[[True]]"\n'
    )
    problems = ProblemList()
    (example,) = examples(path, problems)
    assert example.texts == ("one cup", "two o'clock")
    assert "'images' must be a list or an object, as JSON" in problems.problems[0].message


def test_flat_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "image,text_0,text_1,text_2,right,tag_subset,tag_size\n"
        "a.png,x,y,z,1,colour,3\n"
        "b.png,x,y,,0,,\n"
    )
    first, second = examples(path)
    assert (first.texts, first.match) == (("x", "y", "z"), ((False, True, False),))
    assert first.tags == {"subset": "colour", "size": "3"}
    assert (second.texts, second.tags) == (("x", "y"), {})
    path.write_text('image_0,image_1,text_0,text_1,match\na.png,b.png,x,y,"[[1,0],[0,1]]"\n')
    (pair,) = examples(path)
    assert [image.key for image in pair.images] == ["a.png", "b.png"]
    assert load_user_benchmark(path).card.family == "pairs"


def test_a_csv_line_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("image,text_0,text_1,right\na.png,x,y,0\nb.png,x\nc.png,x,y,1\n")
    problems = ProblemList()
    assert [example.images[0].key for example in examples(path, problems)] == ["a.png", "c.png"]
    assert [problem.line for problem in problems.problems] == [3]


@pytest.mark.parametrize("kind", ["struct", "map", "text"])
def test_parquet(tmp_path: Path, kind: str) -> None:
    tags: Any = [{"subset": "colour"}, {"subset": "size"}]
    column = {
        "struct": lambda: pa.array(tags),
        "map": lambda: pa.array(
            [list(item.items()) for item in tags], type=pa.map_(pa.string(), pa.string())
        ),
        "text": lambda: pa.array([json.dumps(item) for item in tags]),
    }[kind]()
    table = pa.table(
        {
            "id": [1, 2],
            "images": [PAIR["images"]] * 2,
            "texts": [PAIR["texts"], ["x", ""]],
            "match": [PAIR["match"]] * 2,
            "tags": column,
        }
    )
    path = tmp_path / "mine.parquet"
    pq.write_table(table, path)
    problems = ProblemList()
    (example,) = examples(path, problems)
    assert (example.id, example.tags) == ("1", {"subset": "colour"})
    assert example.match == ((True, False), (False, True))
    assert [problem.line for problem in problems.problems] == [2]


def test_images_stored_in_parquet(tmp_path: Path) -> None:
    def png(width: int) -> dict[str, Any]:
        buffer = io.BytesIO()
        Image.new("RGB", (width, 2)).save(buffer, "PNG")
        return {"bytes": buffer.getvalue(), "path": None}

    row = {"text_0": "x", "text_1": "y", "match": PAIR["match"], "embedding": b"no image"}
    rows = [{**row, "image_0": png(3 + i), "image_1": png(5 + i)} for i in range(2)]
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    result = examples(path)
    assert [open_image(image).size[0] for image in result[1].images] == [4, 6]
    assert len({image.key for example in result for image in example.images}) == 4


def test_files_that_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    for name, what in (
        ("none.jsonl", "does not exist"),
        ("none.parquet", "does not exist"),
        ("a.parquet", "not a readable Parquet file"),
    ):
        with pytest.raises(InputError, match=what):
            load_user_benchmark(tmp_path / name)


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", " ", "a", "é", "\ud800", 0, 1, 2, -1, 0.0, True, [], ["a"], ["a", ""], ["a", 1],
     ["a", "b", "c"], ["../x"], ["/x"], {}, {"s": "t"}, {"s": ""}, {"s": 3}, {"s": ["t"]},
     [[True, False]], [[1, 0]], [[False, False]], [[True], [False]], [[0.0, 1.0]], [["x", 1]],
     [[[]]], '["a", "b"]']
)  # fmt: skip
USUAL: dict[str, Any] = {
    "id": st.sampled_from(["7", "x y"]),
    "images": st.sampled_from([["a.png"], ["a.png", "b/c.png"]]),
    "texts": st.sampled_from([["a", "b"], ["a b", "c", "d"]]),
    "right": st.sampled_from([0, 1]),
    "match": st.sampled_from([[[True, False], [False, True]], [[False, True]]]),
    "tags": st.sampled_from([{}, {"subset": "x", "kind": "y"}]),
}
FIELDS = (*USUAL, "image", "text_0", "tag_a", "other")


@st.composite
def records(draw: st.DrawFn) -> Any:
    names = draw(st.lists(st.sampled_from(FIELDS), unique=True, max_size=7))
    names += [name for name in ("images", "texts", "right") if draw(st.integers(0, 9))]
    return {
        name: draw(USUAL[name] if name in USUAL and draw(st.integers(0, 3)) else ODD)
        for name in names
    }


def read(value: Any, folder: Path) -> tuple[list[Example], list[str]]:
    problems = ProblemList()
    record = Record(value, folder / "f.jsonl", 1, "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_file, "read_table_records", lambda *_: iter([record]))
        result = list(user_file._read_examples(folder / "f.jsonl", folder, problems))
    return result, [problem.message for problem in problems.problems]


@settings(max_examples=400, deadline=None)
@given(records() | ODD)
def test_as_the_careful_reader(value: Any) -> None:
    folder = Path("folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainReader, "example", lambda self, record: None)
        careful = read(value, folder)
    assert read(value, folder) == careful
    quick = PlainReader(folder).example(Record(value, folder / "f.jsonl", 1, "0"))
    assert quick is None or ([quick], []) == careful


@pytest.mark.parametrize("more", [{"right": 0}, {"match": [[True, False]]},
                                  {"right": 1, "tags": {"subset": "x"}}])  # fmt: skip
def test_the_usual_is_plain(more: dict[str, Any]) -> None:
    plain = PlainReader(Path("folder"))
    value = json.loads(json.dumps({"images": ["a.png"], "texts": ["a", "b"], **more}))
    first, second = (plain.example(Record(value, Path("f"), i, str(i))) for i in (1, 2))
    assert first is not None
    assert second is not None
    assert first.images is second.images
    assert first.match is second.match
