"""Model strings: what people type is understood, and written in one way."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.models.names import (
    SETTINGS,
    ModelName,
    file_digest,
    fingerprint,
    parse_name,
    split_models,
)

KNOWN = ("tiny", "tiny-clip", "mine")


def no_folder(_: str) -> bool:
    return False


def canonical(text: str) -> str:
    return str(parse_name(text, KNOWN, is_folder=no_folder))


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("tiny", "tiny"),
        (" tiny ", "tiny"),
        ("hf:openai/clip-vit-base-patch32", "hf:openai/clip-vit-base-patch32"),
        ("openai/clip-vit-base-patch32", "hf:openai/clip-vit-base-patch32"),
        ("hf-hub:org/name@v2", "hf:org/name@v2"),
        ("org/name@3f2a", "hf:org/name@3f2a"),
        ("hf:gpt2", "hf:gpt2"),
        ("ViT-B-32,openai", "openclip:ViT-B-32/openai"),
        ("openclip:ViT-B-32,openai", "openclip:ViT-B-32/openai"),
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "openclip:ViT-B-32/laion2b_s34b_b79k"),
        ("open_clip:hf-hub:org/name", "openclip:hf-hub:org/name"),
        ("openclip:ViT-B-32/a/b/negclip.pth", "openclip:ViT-B-32/a/b/negclip.pth"),
        ("openclip:ViT-B-32//abs/negclip.pth", "openclip:ViT-B-32//abs/negclip.pth"),
        ("ViT-B/32", "openclip:ViT-B-32/openai"),
        ("lm:smollm2", "lm:smollm2"),
        ("lm:org/name@v2?dtype=bfloat16", "lm:org/name@v2,dtype=bf16"),
        ("lm:some/where/model.gguf", "lm:some/where/model.gguf"),
        ("ViT-L/14@336px", "openclip:ViT-L-14-336/openai"),
        ("RN50x4", "openclip:RN50x4/openai"),
        ("joined:heads/a", "joined:heads/a"),
        ("my_pkg:MyModel", "my_pkg:MyModel"),
        ("my_pkg.models:load", "my_pkg.models:load"),
        ("some/where/my file.py:MyModel", "some/where/my file.py:MyModel"),
        ("local-dir:some/where", "some/where"),
        ("tiny?dtype=bfloat16", "tiny,dtype=bf16"),
        ("tiny,long=cut,dtype=bfloat16", "tiny,dtype=bf16,long=cut"),
        ("ViT-B-32,openai,dtype=bf16", "openclip:ViT-B-32/openai,dtype=bf16"),
        ("hf:org/name@v2,dtype=bf16", "hf:org/name@v2,dtype=bf16"),
        ("org/name@v2?long=cut&dtype=BF16", "hf:org/name@v2,dtype=bf16,long=cut"),
        ("ViT-B-32,x.pt?activation=QuickGELU", "openclip:ViT-B-32/x.pt,activation=quickgelu"),
    ],
)
def test_what_people_type(typed: str, means: str) -> None:
    assert canonical(typed) == means
    assert canonical(means) == means or "where" in means  # a folder is one only where it is there


def test_folders_come_first() -> None:
    here = {"org/name", "a?dtype=x", "./b"}.__contains__
    assert parse_name("org/name", KNOWN, is_folder=here) == ModelName("folder", "org/name")
    assert parse_name("a?dtype=x", KNOWN, is_folder=here) == ModelName("folder", "a?dtype=x")
    found = parse_name("./b?dtype=fp16", KNOWN, is_folder=here)
    assert found == ModelName("folder", "./b", None, {"dtype": "fp16"})
    assert parse_name("tiny", KNOWN, is_folder=lambda _: True).scheme == "registered"


@pytest.mark.parametrize("folder", ["./b", "../b", "/a/b", "~/b", "org/name"])
@pytest.mark.parametrize("settings", ["", ",dtype=bf16"])
def test_a_folder_behind_hf_is_that_folder(folder: str, settings: str) -> None:
    there = {folder}.__contains__
    found = parse_name(f"hf:{folder}{settings}", KNOWN, is_folder=there)
    assert found == parse_name(f"{folder}{settings}", KNOWN, is_folder=there)
    assert str(found) == f"{folder}{settings}"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "name is empty"),
        ("tinny", "there is no model 'tinny': did you mean tiny"),
        ("qqqqqq", "models here: mine, tiny, tiny-clip"),
        ("./nowhere", r"there is no folder './nowhere'"),
        ("a/b/c", "there is no folder 'a/b/c'"),
        ("ViT-B-32", "'ViT-B-32' names no weights: write openclip:ViT-B-32/TAG"),
        ("hf:", "lacks what comes after the colon"),
        ("hf:a/b/c", "written hf:org/name"),
        ("hf:./nowhere", r"there is no folder './nowhere'"),
        ("hf:/no/where", "there is no folder '/no/where'"),
        ("openclip:ViT-B-32", "names no weights: write openclip:ViT-B-32/openai"),
        ("tiny?dtpye=bf16", "unknown setting 'dtpye': did you mean dtype"),
        ("tiny?dtype=int8", "there is no dtype 'int8'; there are fp32, bf16, fp16"),
        ("tiny,dtpye=bf16", "unknown setting 'dtpye': did you mean dtype"),
        ("tiny,dtype=bf16,dtype=fp16", "says dtype twice"),
        ("tiny?long=cutt", "has long=cutt: did you mean cut"),
        ("tiny?dtype=bf16&dtype=fp16", "says dtype twice"),
    ],
)
def test_what_is_none(typed: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        canonical(typed)


def test_several_models_of_one_option() -> None:
    assert split_models("tiny,hf:a/b,dtype=bf16,long=cut, c/d ,") == [
        "tiny", "hf:a/b,dtype=bf16,long=cut", "c/d",
    ]  # fmt: skip


WORD = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,8}[A-Za-z0-9]", fullmatch=True)
HUB = st.builds("{}/{}".format, WORD, WORD)
CHOSEN = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in SETTINGS.items()}
)
NAMES = st.one_of(
    st.builds(ModelName, st.just("registered"), st.sampled_from(KNOWN), st.none(), CHOSEN),
    st.builds(ModelName, st.just("hf"), HUB, st.none() | WORD, CHOSEN),
    st.builds(ModelName, st.just("openclip"), HUB, st.none(), CHOSEN),
    st.builds(ModelName, st.just("joined"), HUB | WORD, st.none(), CHOSEN),
    st.builds(
        ModelName,
        st.just("python"),
        st.from_regex(r"[xyz][a-z_]{1,6}(\.[a-z]{2,4})?:[A-Z][a-z]{0,5}", fullmatch=True),
        st.none(),
        CHOSEN,
    ),
)


@given(NAMES)
def test_what_is_written_is_read_back(name: ModelName) -> None:
    assert parse_name(str(name), KNOWN, is_folder=no_folder) == name


@given(st.text(max_size=30))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        found = parse_name(text, KNOWN, is_folder=no_folder)
    except InputError:
        return
    if found.scheme != "folder":
        assert parse_name(str(found), KNOWN, is_folder=no_folder) == found


def test_place_and_order_do_not_count(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("one", "two"):
            (tmp_path / folder / name).write_text(name)
    first = fingerprint([tmp_path / "a" / "one", tmp_path / "a" / "two"], dtype="fp32", cut=False)
    again = fingerprint([tmp_path / "b" / "two", tmp_path / "b" / "one"], cut=False, dtype="fp32")
    assert first == again


def test_names_content_and_facts_count(tmp_path: Path) -> None:
    file = tmp_path / "one"
    file.write_text("x")
    seen = {fingerprint([file], dtype="fp32"), fingerprint([file], dtype="bf16"), fingerprint([])}
    file.write_text("y")
    seen.add(fingerprint([file], dtype="fp32"))
    file.rename(tmp_path / "two")
    seen.add(fingerprint([tmp_path / "two"], dtype="fp32"))
    assert len(seen) == 5


def test_links_count_by_their_content(tmp_path: Path) -> None:
    content = b"weights"
    digest = hashlib.sha256(content).hexdigest()
    blob = tmp_path / "blobs" / digest
    blob.parent.mkdir()
    blob.write_bytes(content)
    link, copy = tmp_path / "model.safetensors", tmp_path / "copy"
    link.symlink_to(blob)
    copy.write_bytes(content)
    assert file_digest(link) == file_digest(copy) == digest
    blob.write_bytes(b"other weights under the old name")
    assert file_digest(link) != digest
    assert fingerprint([link]) != fingerprint([copy])
    small = tmp_path / "blobs" / ("a" * 40)  # a git hash is not one of the content alone
    small.write_bytes(content)
    other = tmp_path / "config.json"
    other.symlink_to(small)
    assert file_digest(other) == digest


def test_a_string_that_is_too_long_for_a_path() -> None:
    url = f"http://localhost/{'x' * 300}"
    assert parse_name(f"openai:m?url={url}").settings["url"] == url
