"""open_clip models: the library's own numbers, and never with the wrong activation."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import contrapose as cp
from contrapose.errors import InputError, MissingExtraError
from contrapose.models import CardProvider, Encoder, ImagePreparer, TokenCounter, load_model
from contrapose.models.conformance import check_model
from contrapose.models.openclip import build_transform
from tests.models.hf.small import CAPTIONS, LONG, bert_tokenizer, pictures, randomised
from tests.models.openclip.torchvision_parts import import_open_clip

CONFIG: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """open_clip with a small model, which has a tag of each activation."""
    found = import_open_clip()
    folder = tmp_path_factory.mktemp("configs")
    for name, quick in (("Small", False), ("Small-quickgelu", True)):
        content = {**CONFIG, "quick_gelu": True} if quick else CONFIG
        (folder / f"{name}.json").write_text(json.dumps(content))
    paths, table = found.factory._MODEL_CONFIG_PATHS, found.pretrained._PRETRAINED
    before = list(paths)
    found.add_model_config(folder)
    network = randomised(found.create_model("Small"))
    weights = folder / "weights.safetensors"
    save_file(network.state_dict(), weights)
    tag = found.pretrained._pcfg() | {"file": str(weights)}
    table["Small"] = {"openai": {**tag, "quick_gelu": True}, "laion": tag}
    table["Small-quickgelu"] = {"openai": {**tag, "quick_gelu": True}}
    yield found
    paths[:] = before
    del table["Small"], table["Small-quickgelu"]
    for name in ("Small", "Small-quickgelu"):
        del found.factory._MODEL_CONFIGS[name]


@pytest.fixture
def weights(library: Any) -> dict[str, Tensor]:
    file = library.pretrained._PRETRAINED["Small"]["laion"]["file"]
    found: dict[str, Tensor] = library.factory.load_state_dict(file)
    return found


def direct(library: Any, *, quick: bool) -> Tensor:
    """The cosine of each image with each caption, by the library alone, one pair at a time."""
    model = library.create_model(
        "Small-quickgelu" if quick else "Small",
        library.pretrained._PRETRAINED["Small"]["laion"]["file"],
    ).eval()
    transform = library.image_transform(32, is_train=False)
    tokenizer = library.get_tokenizer("Small")
    rows = []
    for image in pictures():
        row = []
        for caption in CAPTIONS:
            with torch.no_grad():
                seen, read, _ = model(transform(image)[None], tokenizer([caption]))
            row.append((seen @ read.T).item())
        rows.append(row)
    return torch.tensor(rows)


def scores(model: Any) -> Tensor:
    found: Tensor = model.embed_images(pictures()) @ model.embed_texts(CAPTIONS).T
    return found


def test_the_score_is_the_library_s_own(library: Any) -> None:
    model = load_model("openclip:Small/laion")
    for protocol in (Encoder, ImagePreparer, TokenCounter, CardProvider):
        assert isinstance(model, protocol)
    theirs = direct(library, quick=False)
    torch.testing.assert_close(scores(model), theirs, rtol=1e-4, atol=1e-5)
    assert theirs.std() > 0.01
    assert load_model("Small,laion").name == "openclip:Small/laion"


def test_the_tag_s_activation_is_forced(library: Any) -> None:
    theirs = direct(library, quick=True)
    assert not torch.allclose(theirs, direct(library, quick=False), atol=1e-3)
    plain, named = load_model("openclip:Small/openai"), load_model("Small-quickgelu,openai")
    torch.testing.assert_close(scores(plain), theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scores(named), theirs, rtol=1e-4, atol=1e-5)
    assert plain.fingerprint == named.fingerprint
    assert plain.fingerprint != load_model("openclip:Small/laion").fingerprint
    with pytest.raises(InputError, match="its activation is known; leave out activation=gelu"):
        load_model("openclip:Small/openai,activation=gelu")


def test_a_file_must_have_its_activation_said(
    library: Any, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    """As NegCLIP's checkpoints are: pickled, inside a training state, from several GPUs."""
    file = tmp_path / "negclip.pth"
    state = {f"module.{name}": weight for name, weight in weights.items()}
    torch.save({"epoch": 3, "name": "negclip", "state_dict": state}, file)
    with pytest.raises(InputError, match=r"negclip.pth does not say.*,activation=quickgelu"):
        load_model(f"openclip:Small/{file}")
    quick = load_model(f"openclip:Small/{file},activation=quickgelu")
    plain = load_model(f"openclip:Small/{file},activation=gelu")
    torch.testing.assert_close(scores(quick), direct(library, quick=True), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scores(plain), direct(library, quick=False), rtol=1e-4, atol=1e-5)
    assert quick.name == f"openclip:Small/{file},activation=quickgelu"
    assert quick.fingerprint != plain.fingerprint
    said = load_model(f"openclip:Small-quickgelu/{file}")
    assert said.fingerprint == quick.fingerprint
    with pytest.raises(InputError, match="has QuickGELU: leave out activation=gelu"):
        load_model(f"openclip:Small-quickgelu/{file},activation=gelu")


@pytest.mark.parametrize("quick", [True, False])
def test_a_folder_says_its_activation(
    library: Any, weights: dict[str, Tensor], tmp_path: Path, quick: bool
) -> None:
    config = {"model_cfg": {**CONFIG, "quick_gelu": quick}, "preprocess_cfg": {"size": [32, 32]}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="holds no weights"):
        load_model(str(tmp_path))
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    model = load_model(str(tmp_path))
    torch.testing.assert_close(scores(model), direct(library, quick=quick), rtol=1e-4, atol=1e-5)
    assert model.name == str(tmp_path)
    (tmp_path / "open_clip_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"holds no usable open_clip_config.json"):
        load_model(str(tmp_path))


def test_from_the_hub(
    library: Any, weights: dict[str, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG}))
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda source, **_: str(tmp_path))
    for name in ("openclip:hf-hub:org/name", "hf-hub:org/name"):
        model = load_model(name)
        torch.testing.assert_close(scores(model), direct(library, quick=False), atol=1e-5, rtol=0)
    assert model.name == "hf:org/name"


def test_a_pickle_is_not_run(library: Any, weights: dict[str, Tensor], tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "evil",))

    file = tmp_path / "evil.pt"
    torch.save({"state_dict": weights, "x": Evil()}, file)
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(f"openclip:Small/{file},activation=gelu")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("openclip:Smal/openai", "open_clip has no model 'Smal': did you mean Small"),
        ("openclip:Small/openay", "no weights 'openay' for Small: did you mean openai"),
        ("openclip:Small/no/where.pt", "no/where.pt: there is no such file of weights"),
    ],
)
def test_unknown_names(library: Any, name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_model(name)


def test_batches_and_preparation_change_nothing(library: Any) -> None:
    model: Any = load_model("openclip:Small/openai")
    images = pictures()
    together = model.embed_images(images)
    alone = torch.cat([model.embed_images([image]) for image in images])
    prepared = model.embed_images([model.prepare_image(image) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together, prepared)
    assert torch.equal(
        torch.from_numpy(model.resize_crop.to_bytes(images[0])), model.prepare_image(images[0])
    )
    texts = model.embed_texts(CAPTIONS)
    torch.testing.assert_close(texts[:1], model.embed_texts(CAPTIONS[:1]), rtol=1e-4, atol=1e-5)


def test_long_and_empty_captions(library: Any) -> None:
    model: Any = load_model("openclip:Small/openai")
    cutting: Any = load_model("openclip:Small/openai", cut=True)
    count = model.token_counts([LONG])[0]
    assert model.context == 77 < count
    assert model.token_counts(["a dog"]) == [4]
    assert [len(row) for row in model.token_ids(["a dog", "dog"])] == [2, 1]
    with pytest.raises(InputError, match=f"has {count} tokens"):
        model.embed_texts([LONG])
    with pytest.raises(InputError, match="a caption is empty"):
        cutting.embed_texts([" "])
    assert cutting.name == "openclip:Small/openai,long=cut"
    pair = cutting.embed_texts([LONG, LONG + "a cat"])
    torch.testing.assert_close(pair[0], pair[1])


def test_it_conforms(library: Any) -> None:
    report = check_model(load_model("openclip:Small/openai"))
    assert report.failed == ()


def test_half_precision(library: Any) -> None:
    fine, rough = (
        load_model("openclip:Small/openai"),
        load_model("openclip:Small/openai,dtype=bf16"),
    )
    difference = (scores(fine) - scores(rough)).abs().max()
    assert 0 < difference < 0.05
    assert scores(rough).dtype == torch.float32


def test_a_tokeniser_of_transformers(library: Any, tmp_path: Path) -> None:
    tokenizer = bert_tokenizer()
    text = CONFIG["text_cfg"] | {"hf_tokenizer_name": "org/name", "context_length": 20}
    text |= {"vocab_size": len(tokenizer)}
    config = {**CONFIG, "text_cfg": text}
    network = randomised(library.CLIP(**config))
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    save_file(network.state_dict(), tmp_path / "open_clip_model.safetensors")
    tokenizer.save_pretrained(tmp_path)
    model: Any = load_model(str(tmp_path))
    assert model.context == 20
    assert model.token_counts(["a dog"]) == [4]
    tokens = tokenizer(["a dog"], padding="max_length", max_length=20, return_tensors="pt")
    with torch.no_grad():
        theirs = network.encode_text(tokens["input_ids"], normalize=True)
    torch.testing.assert_close(model.embed_texts(["a dog"]), theirs, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="reads 20"):
        model.embed_texts([LONG])


def test_trust_that_a_folder_gives_itself_is_refused(library: Any, tmp_path: Path) -> None:
    tokenizer = bert_tokenizer()
    text = CONFIG["text_cfg"] | {"hf_tokenizer_name": "org/name", "vocab_size": len(tokenizer)}
    network = randomised(library.CLIP(**{**CONFIG, "text_cfg": text}))
    config = {**CONFIG, "text_cfg": text | {"tokenizer_kwargs": {"trust_remote_code": True}}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    save_file(network.state_dict(), tmp_path / "open_clip_model.safetensors")
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    stated = json.loads(file.read_text()) | {"auto_map": {"AutoTokenizer": ["code.Words", None]}}
    file.write_text(json.dumps(stated | {"tokenizer_class": "Words"}))
    ran = tmp_path / "ran"
    code = (
        f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
        "from transformers import BertTokenizer\nclass Words(BertTokenizer):\n    pass\n"
    )
    (tmp_path / "code.py").write_text(code)
    for load in (load_model, cp.check_model):
        with pytest.raises(InputError, match=r"open_clip_config\.json.*trust_remote_code"):
            load(str(tmp_path))
    assert not ran.exists()
    load_model(str(tmp_path), trust_remote_code=True)
    assert ran.exists()


@pytest.mark.parametrize("mode", ["shortest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_pixels_are_the_library_s_to_the_last_bit(
    library: Any, mode: str, interpolation: str
) -> None:
    config = library.transform.PreprocessCfg(size=31, resize_mode=mode, interpolation=interpolation)
    steps = build_transform(vars(config))
    assert steps is not None
    transform = library.transform.image_transform_v2(config, is_train=False)
    for image in pictures():
        assert torch.equal(steps(image), transform(image))


def test_unusual_preprocessing_is_left_to_the_library(
    library: Any, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    usual = vars(library.transform.PreprocessCfg(size=32))
    assert build_transform(usual) is not None
    assert build_transform({**usual, "size": (32, 24)}) is None
    assert build_transform({**usual, "resize_mode": "longest"}) is None
    assert build_transform({**usual, "interpolation": "random"}) is None
    config = {"model_cfg": CONFIG, "preprocess_cfg": {"resize_mode": "longest"}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    model: Any = load_model(str(tmp_path))
    assert model.card.preprocessing == "as open_clip does it"
    image = pictures()[0]
    transform = library.image_transform(32, is_train=False, resize_mode="longest")
    with torch.no_grad():
        theirs = model.network.encode_image(transform(image)[None], normalize=True)
    torch.testing.assert_close(model.embed_images([image]), theirs, rtol=1e-4, atol=1e-5)


def test_without_open_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e .*\[openclip\]'"):
        load_model("openclip:ViT-B-32/openai")


def test_a_torchvision_that_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchvision").mkdir()
    broken = 'raise RuntimeError("operator torchvision::nms does not exist")'
    (tmp_path / "torchvision" / "__init__.py").write_text(broken)
    info = tmp_path / "torchvision-9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 9.1\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    for model in ("openclip:ViT-B-32/openai", f"hf:{tmp_path}"):
        with pytest.raises(InputError, match=r"torchvision 9\.1 does not fit torch .*nms"):
            load_model(model)
