"""`contrapose build pairs`: files, seeds, refusals, and an endpoint that rewrites."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from contrapose.build.captions import writer
from tests.chatting import Response, said, serving
from tests.conftest import Cli

LINES = (
    {"image": "1.jpg", "caption": "A red cube and a blue ball."},
    {"image": "2.jpg", "caption": "a man riding a horse next to two dogs"},
    {"image": "2.jpg", "caption": "a man riding a horse next to two dogs"},
    {"image": "3.jpg", "caption": " "},
    {"image": "4.jpg", "caption": "Untitled"},
)


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_folder(cli: Cli, captions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said_ = cli("build", "pairs", captions, "--out", out)
    assert said_.status == 0, said_
    assert "5 captions read, 1 empty, 1 double, 3 written" in said_.out
    rows = lines_of(out / "pairs.jsonl")
    assert [row["image"] for row in rows] == ["1.jpg", "2.jpg", "4.jpg"]
    for row in rows:
        for side in ("positives", "negatives"):
            assert len(row[side]) == len(row["kinds"][side]) == len(row["changes"][side]) <= 4
            for text, changes in zip(row[side], row["changes"][side], strict=True):
                assert remade(row["caption"], changes) == text
    assert rows[2]["positives"] == rows[2]["negatives"] == []
    manifest = json.loads((out / "manifest.json").read_text())
    content = (out / "pairs.jsonl").read_bytes()
    assert manifest["sha256"] == hashlib.sha256(content).hexdigest()
    assert manifest["captions"] == {
        "read": 5, "empty": 1, "double": 1, "distinct": 3, "without a positive": 1,
        "without a negative": 1, "written": 3,
    }  # fmt: skip
    for counts in manifest["proposals"].values():
        rest = sum(count for name, count in counts.items() if name != "proposed")
        assert counts["proposed"] == rest


def remade(caption: str, changes: list[dict[str, Any]]) -> str:
    for change in reversed(changes):
        start, end = change["span"]
        assert caption[start:end] == change["from"]
        caption = caption[:start] + change["to"] + caption[end:]
    return caption


def test_a_file_and_the_same_bytes_by_seed(cli: Cli, captions: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        out = tmp_path / f"{name}.jsonl"
        assert cli("build", "pairs", captions, "--out", out, "--seed", seed).status == 0
        assert out.with_name(f"{name}.manifest.json").is_file()
    a, b, c = ((tmp_path / f"{name}.jsonl").read_bytes() for name in "abc")
    assert a == b != c


def test_kinds_and_counts(cli: Cli, captions: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    done = cli(
        "build", "pairs", captions, "--out", out, "--kinds", "swap,number", "--per-caption", 2,
        "--complete", "--json", "--quiet",
    )  # fmt: skip
    assert done.refused().endswith("leave --complete out.")
    assert not out.exists()
    done = cli(
        "build", "pairs", captions, "--out", out, "--kinds", "swap,number", "--per-caption", 2,
        "--json", "--quiet",
    )  # fmt: skip
    assert done.status == 0, done
    assert json.loads(done.out)["kinds"] == ["swap-and", "number"]
    rows = lines_of(out)
    assert rows[0]["positives"] == ["A blue ball and a red cube."]
    assert rows[1]["kinds"]["negatives"] == ["number", "number"]


def test_the_audit_ends_every_build(cli: Cli, captions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = cli("build", "pairs", captions, "--out", out)
    assert "without an image" in done.out
    assert "never looks" in done.out
    audit = json.loads((out / "manifest.json").read_text())["audit"]
    assert audit["negatives"] == sum(len(row["negatives"]) for row in lines_of(out / "pairs.jsonl"))
    assert audit["verdict"]
    assert set(audit["scores"]) >= {"length (fewer words)"}


def test_balance(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "captions.txt"
    things = ("dog", "cat", "horse", "cow", "sheep", "man", "woman", "bird")
    colors = ("red", "blue", "green", "black", "white")
    path.write_text("".join(f"a {c} {t} on a chair\n" for t in things for c in colors))
    for name, words in (("plain", ()), ("balanced", ("--balance",))):
        out = tmp_path / f"{name}.jsonl"
        done = cli("build", "pairs", path, "--out", out, "--kinds", "contrast", *words)
        assert done.status == 0, done
    manifests = [
        json.loads((tmp_path / f"{name}.manifest.json").read_text())
        for name in ("plain", "balanced")
    ]
    assert [manifest["balance"] for manifest in manifests] == [False, True]
    plain, balanced = (manifest["audit"]["negatives"] for manifest in manifests)
    assert 0 < balanced < plain
    for row in lines_of(tmp_path / "balanced.jsonl"):
        assert len(row["negatives"]) <= 4
        assert len(row["positives"]) <= 4
    for counts in manifests[1]["proposals"].values():
        rest = sum(count for name, count in counts.items() if name != "proposed")
        assert counts["proposed"] == rest


def test_dry_run(cli: Cli, captions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = cli("build", "pairs", captions, "--out", out, "--dry-run")
    assert done.status == 0, done
    assert "nothing was written" in done.out
    assert not out.exists()
    plan = json.loads(cli("build", "pairs", captions, "--out", out, "--dry-run", "--json").out)
    assert cli("build", "pairs", captions, "--out", out).status == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert plan["captions"] == manifest["captions"]
    kept = {kind: counts["kept"] for kind, counts in manifest["proposals"].items()}
    assert plan["expected"] == kept


@pytest.mark.parametrize("group", ["atom", "crepe", "aro"])
def test_groups_of_other_sets(cli: Cli, captions: Path, tmp_path: Path, group: str) -> None:
    out = tmp_path / "o.jsonl"
    assert cli("build", "pairs", captions, "--out", out, "--kinds", group).status == 0
    kinds = {kind for row in lines_of(out) for kind in row["kinds"]["negatives"]}
    assert kinds
    assert all(kind.startswith("order") == (group == "aro") for kind in kinds)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--kinds", "swop"), "did you mean swap"),
        (("--kinds", "rewrite"), "pass --rewriter"),
        (("--kinds", "swap", "--rewriter", "openai:x"), "nothing to do"),
        (("--rewriter", "tiny"), "does not answer in words"),
        (("--cache", "x", "--no-cache"), "do not go together"),
        (("--caption-field", "said"), "'said' is missing"),
        (("--lm", "tiny"), "lm"),
    ],
)
def test_refusals(
    cli: Cli, captions: Path, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    out = tmp_path / "out"
    assert says in cli("build", "pairs", captions, "--out", out, *words).refused()
    assert not out.exists() or not any(out.iterdir())


def test_no_captions(cli: Cli, tmp_path: Path) -> None:
    empty = tmp_path / "a.txt"
    empty.write_text("")
    assert "holds no captions" in cli("build", "pairs", empty, "--out", tmp_path / "o").refused()
    empty.write_text("...\n")
    said_ = cli("build", "pairs", empty, "--out", tmp_path / "o").refused()
    assert "no caption with words" in said_
    assert [path.name for path in tmp_path.rglob("*.json*")] == []


def test_what_is_there_is_kept(cli: Cli, captions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    assert "--overwrite" in cli("build", "pairs", captions, "--out", out).refused()
    assert out.read_text() == "mine"
    assert cli("build", "pairs", captions, "--out", out, "--overwrite").status == 0
    assert len(lines_of(out)) == 3


def test_a_full_disk_leaves_nothing(
    cli: Cli, captions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    before = set(tmp_path.iterdir())
    monkeypatch.setattr(writer, "_encode_line", full)
    assert "No space left" in cli("build", "pairs", captions, "--out", out).refused()
    assert set(tmp_path.iterdir()) == before


def rewrites(request: Mapping[str, Any]) -> Response:
    (part,) = request["messages"][0]["content"]
    caption = part["text"].partition("changed sentence. ")[2].partition("\n")[0]
    return Response(said(caption.replace("horse", "steed").replace("ball", "sphere")))


def test_an_endpoint(
    cli: Cli, captions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ("--kinds", "rewrite-synonym,object", "--overwrite", "--quiet", "--json")
    with serving(rewrites) as server:
        name = f"openai:m?url={server.url}"
        for _ in range(2):
            done = cli(
                "build",
                "pairs",
                captions,
                "--out",
                tmp_path / "o.jsonl",
                "--rewriter",
                name,
                *words,
            )
            assert done.status == 0, done
        assert len(server.requests) == 2
        assert server.paths == ["/v1/chat/completions"] * 2
    rows = lines_of(tmp_path / "o.jsonl")
    assert rows[0]["positives"] == ["A red cube and a blue sphere."]
    assert rows[1]["positives"] == ["a man riding a steed next to two dogs"]
    told = json.loads(done.out)["rewriter"]
    assert (told["accepted"], told["from the cache"]) == (2, 2)
    assert "asked" not in told or told["asked"] == 0


def test_an_endpoint_that_is_down(cli: Cli, captions: Path, tmp_path: Path) -> None:
    down = "openai:m?url=http://127.0.0.1:9/v1&retries=0&timeout=1"
    out = tmp_path / "o.jsonl"
    said_ = cli("build", "pairs", captions, "--out", out, "--rewriter", down, "--no-cache")
    assert "cannot be reached" in said_.refused()
    assert not out.exists()
