from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import Example
from contrapose.data.benchmarks import aro_order
from contrapose.data.tagging import clean_caption, shuffle_caption, split_words
from contrapose.errors import InputError, MissingExtraError
from contrapose.files import ProblemList, Problems, StrictProblems

Read = Callable[[Path, Problems], Iterator[Example]]

CAPTIONS = ("A brown dog chases the small cat.", "Two men carry a big red sofa up the stairs!")
CASES = [
    (aro_order.read_coco, "coco_karpathy_test.json", "dataset_coco.json", "val2014"),
    (aro_order.read_flickr, "flickr30k_test.json", "dataset_flickr30k.json", "flickr30k-images"),
]


def karpathy(name: str, split: str = "test", **fields: Any) -> dict[str, Any]:
    sentences = [{"raw": caption, "tokens": []} for caption in CAPTIONS]
    return {"filename": name, "split": split, "sentences": sentences} | fields


@pytest.mark.parametrize(("read", "file", "_", "folder"), CASES)
def test_the_files_that_aro_downloads(
    tmp_path: Path, read: Read, file: str, _: str, folder: str
) -> None:
    entries = [{"image": f"{folder}/{n}.jpg", "caption": list(CAPTIONS)} for n in "ab"]
    (tmp_path / file).write_text(json.dumps(entries))
    examples = list(read(tmp_path, StrictProblems()))
    assert [e.id for e in examples] == ["0", "1", "2", "3"]
    assert {e.match for e in examples} == {((True, False, False, False, False),)}
    assert examples[2].texts == shuffle_caption(CAPTIONS[0])
    assert examples[2].texts[0] == "a brown dog chases the small cat"
    assert examples[2].images[0].key == f"{folder}/b.jpg"
    assert examples[2].images[0].path == tmp_path / folder / "b.jpg"


@pytest.mark.parametrize(("read", "_", "file", "folder"), CASES)
def test_karpathys_files_give_the_test_split(
    tmp_path: Path, read: Read, _: str, file: str, folder: str
) -> None:
    images = [
        karpathy("a.jpg", "train"),
        karpathy("b.jpg"),
        karpathy("c.jpg", filepath="elsewhere"),
    ]
    content = {"dataset": "x", "images": images}
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / file).write_text(json.dumps(content))
    (tmp_path / "images" / folder).mkdir(parents=True)
    (tmp_path / "images" / folder / "b.jpg").touch()
    examples = list(read(tmp_path, StrictProblems()))
    assert [e.id for e in examples] == ["0", "1", "2", "3"]
    assert examples[0].images[0].path == tmp_path / "images" / folder / "b.jpg"
    assert examples[2].images[0].key == "elsewhere/c.jpg"


def test_both_kinds_of_file_give_the_same_examples(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    entry = {"image": "val2014/a.jpg", "caption": list(CAPTIONS)}
    (one / "coco_karpathy_test.json").write_text(json.dumps([entry]))
    content = {"images": [karpathy("a.jpg", filepath="val2014")]}
    (other / "dataset_coco.json").write_text(json.dumps(content))

    def told(root: Path) -> list[tuple[str, str, tuple[str, ...]]]:
        return [
            (e.id, e.images[0].key, e.texts) for e in aro_order.read_coco(root, StrictProblems())
        ]

    assert told(one) == told(other)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"caption": ["fine"]}, "'image' is missing"),
        ({"image": "a.jpg", "caption": "text"}, "'caption' must be a list"),
        ({"image": "a.jpg", "caption": ["fine", None]}, "'caption' must be text"),
        ({"image": "a.jpg", "caption": ["..!"]}, "holds no words"),
        ({"image": "../a.jpg", "caption": ["fine"]}, "climbs out"),
    ],
)
def test_a_malformed_entry_is_named(tmp_path: Path, entry: dict[str, Any], says: str) -> None:
    good = {"image": "val2014/b.jpg", "caption": list(CAPTIONS)}
    lines = ",\n".join(map(json.dumps, [good, entry, good]))
    (tmp_path / "coco_karpathy_test.json").write_text(f"[\n{lines}\n]")
    with pytest.raises(InputError, match=rf"line 3: .*{says}"):
        list(aro_order.read_coco(tmp_path, StrictProblems()))
    problems = ProblemList()
    examples = list(aro_order.read_coco(tmp_path, problems))
    assert [e.id for e in examples] == ["0", "1", "2", "3"]
    assert [p.kind for p in problems.problems] == ["malformed record"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"split": None}, "'split' must be text"),
        ({"sentences": "text"}, "'sentences' must be a list"),
        ({"sentences": [{"tokens": []}]}, "'raw' is missing"),
    ],
)
def test_a_malformed_karpathy_entry_is_named(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    content = {"images": [karpathy("a.jpg", **fields), karpathy("b.jpg")]}
    (tmp_path / "dataset_flickr30k.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=says):
        list(aro_order.read_flickr(tmp_path, StrictProblems()))
    assert len(list(aro_order.read_flickr(tmp_path, ProblemList()))) == 2


def test_without_a_tagger_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: str) -> tuple[str, ...]:
        raise MissingExtraError("textblob", "text", "Tagging parts of speech")

    monkeypatch.setattr(aro_order, "shuffle_caption", missing)
    entry = {"image": "val2014/a.jpg", "caption": list(CAPTIONS)}
    (tmp_path / "coco_karpathy_test.json").write_text(json.dumps([entry]))
    with pytest.raises(MissingExtraError, match=r"\[text\]"):
        list(aro_order.read_coco(tmp_path, ProblemList()))


def test_real_captions_keep_their_words(shared: Path) -> None:
    """SugarCrepe's right captions are COCO's: nearly all of them can be shuffled in all ways."""
    entries = json.loads((shared / "sugarcrepe" / "add_obj.json").read_text()).values()
    captions = sorted({entry["caption"] for entry in entries})
    same = 0
    for caption in captions:
        text, *shuffles = shuffle_caption(caption)
        words = split_words(text)
        assert words == split_words(clean_caption(caption))
        assert all(Counter(split_words(other)) == Counter(words) for other in shuffles)
        same += text in shuffles
    assert 0 < same < 0.02 * len(captions)
