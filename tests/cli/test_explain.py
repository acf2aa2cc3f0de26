"""`contrapose explain`: one pair, its bars, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.diagnose import swaps

QUICK = ("--no-cache", "--quiet", "--device", "cpu")
TEXT, AGAINST = swaps.CAPTIONS[0]


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    swaps.benchmark(tmp_path, 1)
    return tmp_path / "00.png"


def test_bars_of_two_captions(cli: Cli, picture: Path, tmp_path: Path) -> None:
    out = tmp_path / "pair.html"
    said = cli(
        "explain", "tiny", "--image", picture, "--text", TEXT, "--against", AGAINST,
        "--regions", "O1=4,10,16,20;O2=26,10,16,20", "--out", out, *QUICK,
    )  # fmt: skip
    assert said.status == 0, said
    assert said.out.startswith("tiny (itc) scores “")
    assert "R&O " in said.out
    assert "█" in said.out
    assert "O1&O2" in said.out
    assert "Shapley values of words: O " in said.out
    page = out.read_text(encoding="utf-8")
    assert page.count("<svg") == 4  # words and regions, dividends and Shapley values
    assert "red<sub>A</sub>" in page


def test_json_adds_up(cli: Cli, picture: Path) -> None:
    arguments = ("explain", "tiny", "--image", picture, "--text", TEXT, "--json", *QUICK)
    said = cli(*arguments, "--superpixels", "3")
    assert said.status == 0, said
    (pair,) = json.loads(said.out)["pairs"]
    assert sum(pair["words"].values()) == pytest.approx(pair["score"] - pair["nobody"])
    assert sum(pair["word_shapley"].values()) == pytest.approx(pair["score"] - pair["nobody"])
    assert list(pair["region_shapley"]) == ["P1", "P2", "P3"]  # a game of its own
    (whole,) = json.loads(cli(*arguments, "--superpixels", "0").out)["pairs"]
    assert whole["regions"] == {}
    assert whole["words"] == pair["words"]


def test_own_groups_and_single_words(cli: Cli, picture: Path) -> None:
    said = cli(
        "explain", "tiny", "--image", picture, "--text", TEXT, "--groups", "X=cube,ball;Y=left of",
        "--superpixels", "0", "--json", *QUICK,
    )  # fmt: skip
    assert list(json.loads(said.out)["pairs"][0]["words"]) == ["X", "Y", "X&Y"]
    said = cli(
        "explain", "tiny", "--image", picture, "--text", "a cone in front of a ball",
        "--players", "words", "--superpixels", "0", "--json", *QUICK,
    )  # fmt: skip
    players = ["a", "cone", "in front of", "a·2", "ball"]  # a relation is one player
    assert list(json.loads(said.out)["pairs"][0]["word_shapley"]) == players


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--groups", "O=dog"), "has none of the words of O"),
        (("--regions", "O1=1,2,3"), "x,y,width,height"),
        (("--regions", "O1=0,0,9,9;O2=5,5,9,9"), "'O1' and 'O2' overlap"),
        (("--regions", "O1=90,90,9,9"), "'O1' is empty"),
        (("--regions", "O1=nowhere.png"), "nowhere.png"),
        (("--baseline", "mask"), "use --baseline delete"),
        (("--against", TEXT), "the same caption"),
        (("--players", "superpixels", "--regions", "O1=1,2,3,4"), "do not go together"),
        (("--superpixels", "4", "--regions", "O1=1,2,3,4"), "do not go together"),
        (("--superpixels", "17"), "16 is the most"),
        (("--out", "page.txt"), "ends in .html"),
    ],
)
def test_what_it_refuses(cli: Cli, picture: Path, arguments: tuple[str, ...], says: str) -> None:
    said = cli("explain", "tiny", "--image", picture, "--text", TEXT, *arguments, *QUICK).refused()
    assert says in said


def test_a_picture_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    said = cli("explain", "tiny", "--image", tmp_path / "no.png", "--text", TEXT, *QUICK).refused()
    assert "no.png" in said
