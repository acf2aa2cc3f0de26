from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.build.captions.edits import Rewrite
from contrapose.build.captions.pairs import CaptionPairs
from contrapose.errors import InputError
from contrapose.tune.data.files import read_training_set
from contrapose.tune.data.rows import TrainingCaption


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for i in range(3):
        Image.new("RGB", (8, 8), (80 * i, 0, 0)).save(tmp_path / f"{i}.png")
    return tmp_path


def written(root: Path, *records: Any) -> Path:
    file = root / "pairs.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return file


def test_what_build_pairs_writes_is_read(root: Path) -> None:
    pairs = CaptionPairs(
        "0.png",
        "a red ball",
        (Rewrite("a crimson ball", "replace-attribute", ()),),
        (Rewrite("a blue ball", "attribute", ()), Rewrite("ball red a", "order-others", ())),
    )
    rows = read_training_set(written(root, pairs.as_json()))
    assert list(rows.image_captions) == [
        [
            TrainingCaption(
                "a red ball",
                (("a blue ball", "attribute"), ("ball red a", "order-others")),
                (("a crimson ball", "replace-attribute"),),
            )
        ]
    ]
    assert rows.images.open([0])[0].size == (8, 8)
    assert rows.images.pixels is None


def test_lines_of_one_image_come_together(root: Path) -> None:
    rows = read_training_set(
        written(
            root,
            {"image": "1.png", "caption": "one"},
            {"image": "0.png", "captions": ["zero", "nought"]},
            {"image": "1.png", "caption": "another"},
        )
    )
    assert [[s.caption for s in row] for row in rows.image_captions] == [
        ["one", "another"],
        ["zero", "nought"],
    ]
    assert rows.images.open([1])[0].getpixel((0, 0)) == (0, 0, 0)


def test_csv(root: Path) -> None:
    file = root / "pairs.csv"
    file.write_text(
        'image,caption,negative,positives\n0.png,a ball,a cube,"[""the ball"", ""one ball""]"\n',
        encoding="utf-8",
    )
    (row,) = read_training_set(file).image_captions
    assert row == [
        TrainingCaption(
            "a ball", (("a cube", "change"),), (("the ball", "change"), ("one ball", "change"))
        )
    ]


def test_parquet_and_another_folder(root: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "elsewhere"
    folder.mkdir()
    table = pa.table({"image": ["2.png"], "caption": ["two"], "negatives": [["three", "four"]]})
    pq.write_table(table, folder / "pairs.parquet")
    (row,) = read_training_set(folder / "pairs.parquet", root).image_captions
    assert [text for text, _ in row[0].negatives] == ["three", "four"]


def test_coco(root: Path) -> None:
    file = root / "captions.json"
    file.write_text(
        json.dumps(
            {
                "images": [{"id": 7, "file_name": "1.png"}],
                "annotations": [
                    {"image_id": 7, "caption": "a ball"},
                    {"image_id": 7, "caption": "the ball"},
                ],
            }
        ),
        encoding="utf-8",
    )
    (row,) = read_training_set(file).image_captions
    assert [s.caption for s in row] == ["a ball", "the ball"]
    file.write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match="not COCO's captions"):
        read_training_set(file)


def tarred(file: Path, **members: bytes) -> Path:
    with tarfile.open(file, "w") as stream:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("__", "."))
            info.size = len(content)
            stream.addfile(info, io.BytesIO(content))
    return file


def test_tars(root: Path) -> None:
    red = (root / "1.png").read_bytes()
    said = json.dumps({"caption": "two", "negatives": ["three"]}).encode()
    tarred(root / "a.tar", a__png=red, a__txt=b"one\n")
    tarred(root / "b.tar", b__json=said, b__png=(root / "2.png").read_bytes())
    rows = read_training_set(root)
    assert list(rows.image_captions) == [
        [TrainingCaption("one")],
        [TrainingCaption("two", (("three", "change"),))],
    ]
    assert [image.getpixel((0, 0)) for image in rows.images.open([1, 0])] == [
        (160, 0, 0),
        (80, 0, 0),
    ]
    with pytest.raises(InputError, match="'/c' has no image"):
        read_training_set(tarred(root / "c.tar", c__txt=b"three"))
    with pytest.raises(InputError, match="nothing to learn from"):
        read_training_set(tarred(root / "d.tar", d__png=red))
    (root / "e.tar").write_bytes(b"no tar" * 200)
    with pytest.raises(InputError, match="not a whole tar"):
        read_training_set(root / "e.tar")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("txt", b" \n", "b.txt.*empty"),
        ("txt", b"caf\xe9", "b.txt.*UTF-8"),
        ("txt", b"a " * (1 << 19) + b"b", "b.txt.*longer"),
        ("json", b"{", "b.json.*JSON"),
        ("json", b"[" * 100_000, "b.json.*JSON"),
        ("json", b"[1]", "b.json.*object"),
        ("json", b"{}", "b.json.*no caption"),
        ("json", b'{"caption": 7}', "b.json.*'caption' must be text"),
        ("json", b'{"caption": "\\ud800"}', "b.json.*surrogate"),
        ("json", b'{"caption": "two", "negatives": "text"}', "b.json.*'negatives'.*list"),
        ("json", b'{"caption": "two", "positives": ["one", 1]}', "b.json.*'positives'"),
    ],
)
def test_bad_captions_in_tars_are_named_and_counted(
    root: Path, name: str, content: bytes, said: str
) -> None:
    red = (root / "1.png").read_bytes()
    members = {"a__png": red, "a__txt": b"one", "b__png": red, f"b__{name}": content}
    with pytest.raises(InputError, match=said):
        read_training_set(tarred(root / "x.tar", **members))
    members |= {"c__png": red, f"c__{name}": content}
    with pytest.raises(InputError, match=f"2 captions cannot be used.*{said}"):
        read_training_set(tarred(root / "x.tar", **members))


def test_files_beside_one_image_of_a_tar(root: Path) -> None:
    red = (root / "1.png").read_bytes()
    said = json.dumps({"caption": "two", "negatives": ["three"]}).encode()
    members = {"a__png": red, "a__json": b'{"width": 3}', "a__txt": b"one"}
    members |= {"b__png": red, "b__json": said, "b__txt": b"two"}
    rows = read_training_set(tarred(root / "x.tar", **members))
    assert list(rows.image_captions) == [
        [TrainingCaption("one")],
        [TrainingCaption("two", (("three", "change"),))],
    ]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"caption": "a ball"}, "line 2: .*has no image"),
        ({"image": "gone.png", "caption": "a ball"}, "line 2: .*'gone.png' is not in '"),
        ({"image": "../x.png", "caption": "a ball"}, "climbs out"),
        ({"image": "0.png"}, "there is no caption"),
        ({"image": "0.png", "caption": "  "}, "must be text"),
        ({"image": "0.png", "captions": ["a", 3]}, "must be text"),
        ({"image": "0.png", "captions": ["a", "b"], "negatives": ["c"]}, "one caption"),
        ("nonsense", "expected an object"),
    ],
)
def test_what_cannot_be_learnt_from(root: Path, record: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_training_set(written(root, {"image": "0.png", "caption": "fine"}, record))


def test_no_data(root: Path) -> None:
    with pytest.raises(InputError, match="nothing to learn from"):
        read_training_set(written(root))
    with pytest.raises(InputError, match="is not there"):
        read_training_set(root / "gone.jsonl")
    with pytest.raises(InputError, match=r"must be a \.jsonl"):
        read_training_set(root / "0.png")
    with pytest.raises(InputError, match="no folder of images"):
        read_training_set(written(root, {}), root / "gone")
