"""SIMAT: four files that must agree with each other, and do."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.data import EditSet, find_single_benchmark, open_image
from contrapose.data.benchmarks.simat import ORACLE, add_oracle_file, read
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

CAPTIONS = "A cat on a bed.\nA dog on a bed.\nA dog on grass.\n"
TRIPLETS = """\
region_id,subj,rel,obj,dataset_id
30,dog,on,grass,3
20,dog,on,bed,2
10,cat,on,bed,1
11,cat,on,bed,0
"""
BOXES = """\
region_id\timage_id\tsubj\trel\tobj\tbbox
10\t500\tcat\ton\tbed\t6,2,16,9
11\t500\tcat\ton\tbed\t0,0,5,5
20\t501\tdog\ton\tbed\t1,1,9,9
30\t502\tdog\ton\tgrass\t0,0,20,20
99\t777\tbird\ton\tbranch\t0,0,1,1
"""
HEADER = (
    ",transfo_id,region_id,field,value,target,norm,query_ids,target_ids,dataset_id,norm2,is_test\n"
)
TRANSFOS = (
    HEADER + "3,3,10,subj,cat,dog,26,0,1,77,4,True\n"
    "4,4,20,obj,bed,grass,26,1,2,78,16,False\n"
    "5,5,30,obj,grass,bed,26,2,1,79,16,False\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "captions.txt").write_text(CAPTIONS)
    (tmp_path / "triplets.csv").write_text(TRIPLETS)
    (tmp_path / "retrieval_db.tsv").write_text(BOXES)
    (tmp_path / "transfos.csv").write_text(TRANSFOS)
    return tmp_path


def test_the_database(root: Path) -> None:
    data = read(root, StrictProblems())
    assert data.captions == ("A cat on a bed.", "A dog on a bed.", "A dog on grass.")
    assert data.caption_of == (0, 0, 1, 2)
    assert [image.key for image in data.images] == ["500", "500", "501", "502"]
    assert [image.crop for image in data.images][:2] == [(0, 0, 5, 5), (6, 2, 10, 7)]


def test_the_queries(root: Path) -> None:
    first, second, third = read(root, StrictProblems()).queries
    assert (first.id, first.image, first.source, first.target) == ("3", 1, "cat", "dog")
    assert (first.caption, first.target_caption) == (0, 1)
    assert [query.weight for query in (first, second, third)] == [0.5, 0.25, 0.25]
    assert first.tags == {"field": "subj", "split": "test"}
    assert second.tags == {"field": "obj", "split": "dev"}
    # Not 78, the column in transfos.csv: the place of region 20 in triplets.csv.
    assert second.image == 2


def test_files_below_simat_db(root: Path, tmp_path: Path) -> None:
    (tmp_path / "simat_db").mkdir()
    for path in list(root.glob("*.*")):
        path.rename(tmp_path / "simat_db" / path.name)
    assert len(read(tmp_path, StrictProblems()).queries) == 3


def test_photographs_are_cut_here(root: Path) -> None:
    for folder, name in (("VG_100K", "500"), ("VG_100K_2", "501")):
        (root / folder).mkdir()
        Image.new("RGB", (30, 20)).save(root / folder / f"{name}.jpg")
    images = read(root, StrictProblems()).images
    assert [open_image(image).size for image in images[:3]] == [(5, 5), (10, 7), (8, 8)]
    assert images[3].path == root / "VG_100K/502.jpg"


def test_crops_of_the_official_script_are_taken_as_they_are(root: Path) -> None:
    (root / "images" / "images").mkdir(parents=True)
    Image.new("RGB", (7, 7)).save(root / "images" / "images" / "10.png")
    images = read(root, StrictProblems()).images
    assert (images[1].key, images[1].crop) == ("500", None)
    assert open_image(images[1]).size == (7, 7)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("9,9,98,subj,cat,dog,1,0,1,0,4,True", "its region is not in triplets.csv"),
        ("9,9,10,subj,dog,cat,1,0,1,0,4,True", "'dog' is not the subj of 'cat on bed'"),
        ("9,9,10,verb,cat,dog,1,0,1,0,4,True", "'cat' is not the verb"),
        ("9,9,10,subj,cat,dog,1,1,1,0,4,True", "its captions (1, 1) are not those"),
        ("9,9,10,subj,cat,dog,1,0,2,0,4,True", "its captions (0, 2) are not those"),
        (
            "9,9,10,subj,cat,horse,1,0,1,0,4,True",
            "are not those of 'cat on bed' and 'horse on bed'",
        ),
        ("9,9,10,subj,cat,dog,1,0,1,0,0,True", "norm2 must be positive"),
        ("9,9,10,subj,cat,dog,1,0,1,0,nan,True", "'norm2' must be a finite number"),
        ("9,9,10,subj,cat,dog,1,0,1,0,4,maybe", "is_test must be True or False"),
        ("9,9,10,subj,cat", "5 fields where the header has 12"),
    ],
)
def test_a_malformed_query(root: Path, row: str, what: str) -> None:
    path = root / "transfos.csv"
    path.write_text(TRANSFOS.replace("4,4,20", f"{row}\n4,4,20"))
    with pytest.raises(InputError) as refused:
        read(root, StrictProblems())
    assert f"{path}, line 3: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    assert [query.id for query in read(root, problems).queries] == ["3", "4", "5"]
    assert len(problems.problems) == 1


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("6,2,16,9", "6,2,16", "bbox must be four whole numbers"),
        ("6,2,16,9", "6,2,6,9", "the box 6,2,6,9 is empty"),
        ("\t500\t", "\t../../x\t", "'image_id' must be a finite number"),
    ],
)
def test_a_malformed_box(root: Path, old: str, new: str, what: str) -> None:
    path = root / "retrieval_db.tsv"
    path.write_text(BOXES.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        read(root, StrictProblems())
    assert f"{path}, line 2: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    data = read(root, problems)
    assert len(data.images) == 4
    assert "region 10" in problems.problems[1].message


def test_a_gap_in_the_database(root: Path) -> None:
    (root / "triplets.csv").write_text(TRIPLETS.replace("20,dog,on,bed,2", "20,dog,on,bed,7"))
    problems = ProblemList()
    read(root, problems)
    assert "2 is not there" in problems.problems[0].message
    with pytest.raises(InputError, match="count from 0 without gaps"):
        read(root, StrictProblems())


def test_files_of_different_releases(root: Path) -> None:
    (root / "captions.txt").write_text(CAPTIONS + "A horse.\n")
    with pytest.raises(InputError, match=r"4 captions, .*3 different triplets"):
        read(root, StrictProblems())
    (root / "captions.txt").unlink()
    with pytest.raises(InputError, match=r"holds none of captions\.txt"):
        read(root, StrictProblems())


def test_exact_match_stands_in_for_the_oracle(root: Path) -> None:
    fits = read(root, StrictProblems()).fits()
    assert fits.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_an_oracle_of_the_user(root: Path) -> None:
    data = read(root, StrictProblems())
    given = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
    np.save(root / ORACLE, given)
    judged = read(root, StrictProblems())
    assert judged == replace(data, judge=judged.judge)
    assert judged.oracle is not None
    assert np.allclose(judged.oracle, given)
    assert judged.fits().tolist() == (given > 0.5).tolist()
    assert ORACLE in judged.judge


def test_oracles_that_do_not_fit(root: Path) -> None:
    data: EditSet = read(root, StrictProblems())
    for array, what in (
        (np.zeros((3, 4)), r"has the shape \(3, 4\); expected \(4, 3\)"),
        (np.full((4, 3), 1.5), "probabilities"),
        (np.full((4, 3), np.nan), "probabilities"),
        (np.array([{}], dtype=object), "not a readable"),
    ):
        np.save(root / ORACLE, array, allow_pickle=True)
        with pytest.raises(InputError, match=what):
            add_oracle_file(data, root / ORACLE)
    (root / ORACLE).write_bytes(b"\x80\x04pickle")
    with pytest.raises(InputError, match="not a readable"):
        add_oracle_file(data, root / ORACLE)


@pytest.fixture(scope="module")
def released(shared: Path) -> EditSet:
    return read(shared / "simat", StrictProblems())


def test_real_files(released: EditSet) -> None:
    data = released
    assert (len(data.images), len(data.captions), len(data.queries)) == (5859, 645, 17996)
    counted = Counter(query.tags["split"] for query in data.queries)
    assert counted == find_single_benchmark("simat").card.counts == {"dev": 8933, "test": 9063}
    assert Counter(query.tags["field"] for query in data.queries) == {
        "obj": 13765,
        "subj": 3753,
        "rel": 478,
    }
    assert set(data.caption_of) == set(range(645))
    assert all(query.caption == data.caption_of[query.image] for query in data.queries)
    assert len({image.key for image in data.images}) == 4958


def test_real_captions_name_what_the_images_show(shared: Path, released: EditSet) -> None:
    """The order of the captions, against words: a subject stands in the caption of its image."""
    data = released
    with (shared / "simat" / "triplets.csv").open() as file:
        rows = {int(row["dataset_id"]): row for row in csv.DictReader(file)}
    named = [
        rows[position]["subj"].split()[-1] in data.captions[caption].lower()
        for position, caption in enumerate(data.caption_of)
    ]
    assert np.mean(named) > 0.99


def test_real_weights_favour_rare_words(shared: Path, released: EditSet) -> None:
    data = released
    with (shared / "simat" / "transfos.csv").open() as file:
        norms = {row["transfo_id"]: float(row["norm2"]) for row in csv.DictReader(file)}
    weights = np.array([query.weight for query in data.queries])
    expected = np.array([norms[query.id] for query in data.queries])
    assert np.allclose(weights**-2, expected)
