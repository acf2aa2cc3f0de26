"""Weight files: what is written is read, and what cannot be read gets one sentence."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose.errors import InputError
from contrapose.models.tiny import NAMES, load, read_weights, write_weights
from contrapose.models.tiny.model import Tiny, TinyClip
from contrapose.models.tiny.network import BYTES, SPECIAL, TinyConfig, TinyNetwork
from contrapose.models.tiny.weights import FOLDER, read_recipe

WORDS = ("ball", "red")
SMALL = TinyConfig(
    SPECIAL + BYTES + len(WORDS), width=32, heads=4, image_layers=1, text_layers=1,
    fusion_layers=1, embedding=16, image_size=24, patch=12, context=12,
)  # fmt: skip
RECIPE = {"steps_done": [2], "probe": {"replace-color": {"itc": 0.5}}}


@pytest.fixture
def network() -> TinyNetwork:
    torch.manual_seed(0)
    return TinyNetwork(SMALL)


@pytest.fixture
def file(tmp_path: Path, network: TinyNetwork) -> Path:
    path = tmp_path / "small.safetensors"
    write_weights(path, network, WORDS, RECIPE)
    return path


def refusal(path: Path) -> str:
    """The one sentence that refuses a file."""
    with pytest.raises(InputError) as refused:
        read_weights(path)
    sentence = str(refused.value)
    assert sentence.startswith(f"{path}: ")
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert refused.value.__cause__ is None
    return sentence


def change_header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Rewrite the JSON header of a safetensors file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def test_what_is_written_is_read(file: Path, network: TinyNetwork) -> None:
    found, words, _ = read_weights(file)
    assert words == WORDS
    assert found.config == SMALL
    expected = network.state_dict()
    state = found.state_dict()
    assert list(state) == list(expected)
    for name, weight in state.items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, expected[name].half().float())


def test_written_again_the_file_is_the_same(file: Path, tmp_path: Path) -> None:
    network, words, fingerprint = read_weights(file)
    again = tmp_path / "again.safetensors"
    write_weights(again, network, words, read_recipe(file))
    assert again.read_bytes() == file.read_bytes()
    assert read_weights(again)[2] == fingerprint


def test_the_kind_follows_from_the_file(file: Path, tmp_path: Path) -> None:
    assert isinstance(load("mine", path=file), Tiny)
    dual = tmp_path / "dual.safetensors"
    write_weights(
        dual, TinyNetwork(TinyConfig(**{**SMALL.as_dict(), "fusion_layers": 0})), WORDS, {}
    )
    model = load("mine", path=dual)
    assert type(model) is TinyClip
    assert model.name == "mine"
    assert not model.network.training


def test_the_fingerprint_is_of_the_bytes(file: Path, network: TinyNetwork) -> None:
    before = read_weights(file)[2]
    with torch.no_grad():
        network.log_scale.add_(0.5)
    write_weights(file, network, WORDS, RECIPE)
    after = read_weights(file)[2]
    write_weights(file, network, ("ball", "blue"), RECIPE)
    assert len({before, after, read_weights(file)[2]}) == 3


def test_recipes_can_be_read(file: Path) -> None:
    assert read_recipe(file) == RECIPE
    for name in NAMES:
        recipe = read_recipe(FOLDER / f"{name}.safetensors")
        assert len(recipe["phases"]) == len(recipe["steps_done"])
        assert recipe["probe"]["replace-color"]["itc"] > 0.9


def test_a_missing_file(tmp_path: Path) -> None:
    assert "cannot be read (No such file" in refusal(tmp_path / "none.safetensors")
    assert "cannot be read (Is a directory)" in refusal(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_recipe(tmp_path / "none.safetensors")


@pytest.mark.parametrize("kept", [0, 5, 8, 200, -1, -1000])
def test_a_file_cut_short(file: Path, kept: int) -> None:
    file.write_bytes(file.read_bytes()[:kept])
    assert "the weight file is damaged (" in refusal(file)


@pytest.mark.parametrize(
    "content",
    [
        b"not weights at all, but some text that is long enough",
        b"\xff" * 100,
        b"\x00" * 100,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 21) + b'{"__metadata__":null}',
    ],
)
def test_a_file_of_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.safetensors"
    path.write_bytes(content)
    assert "the weight file is damaged (" in refusal(path)
    with pytest.raises(InputError, match="is damaged"):
        read_recipe(path)


@pytest.mark.parametrize(
    ("slot", "value"),
    [
        ("config", "{}"),
        ("config", "[]"),
        ("config", "not JSON"),
        ("config", json.dumps({**SMALL.as_dict(), "width": 64})),
        ("config", json.dumps({**SMALL.as_dict(), "patch": 0})),
        ("config", json.dumps({**SMALL.as_dict(), "depth": 3})),
        ("words", "7"),
        ("words", '["ball"]'),
    ],
)
def test_a_damaged_header(file: Path, slot: str, value: str) -> None:
    change_header(file, lambda header: header["__metadata__"].update({slot: value}))
    assert "the weight file is damaged (" in refusal(file)


@pytest.mark.parametrize("slot", ["config", "words"])
def test_a_header_without(file: Path, slot: str) -> None:
    change_header(file, lambda header: header["__metadata__"].pop(slot))
    assert slot in refusal(file)


def test_a_weight_is_missing(file: Path) -> None:
    change_header(file, lambda header: header.update(other=header.pop("log_scale")))
    assert "the weight file is damaged (" in refusal(file)


def test_another_format(file: Path) -> None:
    change_header(file, lambda header: header["__metadata__"].update(format="contrapose-tiny-9"))
    sentence = refusal(file)
    assert "'contrapose-tiny-9'; this program reads 'contrapose-tiny-1'" in sentence
    change_header(file, lambda header: header.pop("__metadata__"))
    assert "'no format'" in refusal(file)


def test_the_shipped_files_are_small() -> None:
    sizes = [(FOLDER / f"{name}.safetensors").stat().st_size for name in NAMES]
    assert sum(sizes) <= 20_000_000


SIZES = [
    ("fusion_layers", 10**9), ("image_layers", 10**6), ("text_layers", 10**30), ("width", 20_000),
    ("heads", 0), ("heads", 3), ("width", 1), ("width", 30), ("embedding", 10**12),
    ("image_size", 10**9), ("image_size", 24.0), ("context", True), ("patch", -12),
    ("fusion_layers", -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), SIZES)
def test_sizes_that_the_tensors_do_not_have_build_no_network(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    def build(_: object, config: TinyConfig) -> None:
        if torch.get_default_device().type != "meta" or config.image_layers > 1000:
            pytest.fail("a network of wrong sizes was built")
        build_network(_, config)  # type: ignore[arg-type]

    build_network = TinyNetwork.__init__
    monkeypatch.setattr(TinyNetwork, "__init__", build)
    config = json.dumps({**SMALL.as_dict(), name: value})
    change_header(file, lambda header: header["__metadata__"].update(config=config))
    assert "the weight file is damaged (" in refusal(file)


def test_a_large_image_is_refused_though_its_tensors_fit(file: Path) -> None:
    config = json.dumps({**SMALL.as_dict(), "image_size": 24 << 20, "patch": 12 << 20})
    change_header(file, lambda header: header["__metadata__"].update(config=config))
    assert "image_size" in refusal(file)


@pytest.mark.parametrize("dtype", ["BF16", "U16", "I16"])
@pytest.mark.parametrize("every", [False, True])
def test_weights_of_another_type_are_refused(file: Path, dtype: str, every: bool) -> None:
    def relabel(header: dict[str, Any]) -> None:
        names = [name for name in header if name != "__metadata__"]
        for name in names if every else names[:1]:
            header[name]["dtype"] = dtype

    change_header(file, relabel)
    assert "half precision" in refusal(file)


@pytest.mark.parametrize("words", ['["ball", "ball"]', '["ball", 5]', '{"ball": 1, "red": 2}'])
def test_words_that_are_none(file: Path, words: str) -> None:
    change_header(file, lambda header: header["__metadata__"].update(words=words))
    assert "word" in refusal(file)


def test_a_tensor_that_comes_twice(file: Path) -> None:
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + length].rstrip()
    entry = json.dumps(json.loads(text)["log_scale"]).encode()
    text = text[:-1] + b',"log_scale":' + entry + b"}"
    file.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    assert "twice" in refusal(file)
