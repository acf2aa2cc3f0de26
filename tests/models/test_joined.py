"""Two encoders joined by heads: each side as its own library gives it, then one map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import normalize
from transformers import (
    BertConfig,
    BertModel,
    CLIPModel,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
    ViTModel,
)

from contrapose.errors import InputError
from contrapose.models import (
    CaptionTokenizer,
    CardProvider,
    Encoder,
    ImagePreparer,
    TokenCounter,
    load_model,
)
from contrapose.models.conformance import check_model
from contrapose.models.joined import JoinedSpec, Side, read_joined, save_joined
from contrapose.models.joined.encoders import read_sentence_pooling
from tests.models.hf.small import CAPTIONS, LONG, bert_tokenizer, pictures, randomised, save_clip
from tests.models.openclip.torchvision_parts import import_open_clip

SIZE = {"height": 32, "width": 32}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`vit`, saved as a classifier, and `bert`, as sentence-transformers would save it."""
    folder = tmp_path_factory.mktemp("encoders")
    config = ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    )
    randomised(ViTForImageClassification(config)).save_pretrained(folder / "vit")
    ViTImageProcessorPil(size=SIZE).save_pretrained(folder / "vit")
    tokenizer = bert_tokenizer()
    text = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=24,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    bert: Any = BertModel
    randomised(bert(text)).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    return folder


def heads(image: int = 32, text: int = 24, *, bias: bool = False) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    found = {
        "image.weight": torch.randn(16, image, generator=generator),
        "text.weight": torch.randn(16, text, generator=generator),
    }
    if bias:
        found["image.bias"] = torch.randn(16, generator=generator)
        found["text.bias"] = torch.randn(16, generator=generator)
    return found


def pooled_text(folder: Path, how: str) -> Tensor:
    """The caption vectors, one at a time, by the library alone."""
    network: Any = BertModel.from_pretrained(folder)
    tokenizer = bert_tokenizer()
    rows = []
    for caption in CAPTIONS:
        with torch.no_grad():
            found: Any = network.eval()(**tokenizer([caption], return_tensors="pt"))
        states = found.last_hidden_state[0]
        rows.append(
            {
                "first": states[0],
                "mean": states.mean(dim=0),
                "max": states.amax(dim=0),
                "last": states[-1],
                "pooler": found.pooler_output[0],
            }[how]
        )
    return torch.stack(rows)


def pooled_images(folder: Path, how: str) -> Tensor:
    network: Any = ViTModel.from_pretrained(folder)
    processor = ViTImageProcessorPil(size=SIZE)
    rows = []
    for image in pictures():
        seen = processor(images=image.convert("RGB"), return_tensors="pt")
        with torch.no_grad():
            states = network.eval()(**seen).last_hidden_state[0]
        rows.append(states[0] if how == "first" else states.mean(dim=0))
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("image", "text", "unit", "bias"),
    [
        ("first", "mean", True, False),
        ("mean", "first", False, True),
        ("first", "max", False, False),
        ("first", "last", True, True),
        ("first", "pooler", False, False),
    ],
)
def test_the_score_is_the_libraries_own(
    encoders: Path, tmp_path: Path, image: Any, text: Any, unit: bool, bias: bool
) -> None:
    maps = heads(bias=bias)
    sides = JoinedSpec(
        Side(str(encoders / "vit"), pool=image, normalise=unit),
        Side(str(encoders / "bert"), pool=text, normalise=unit),
    )
    save_joined(tmp_path / "joined", sides, maps)
    model: Any = load_model(f"joined:{tmp_path / 'joined'}")
    assert all(
        isinstance(model, each)
        for each in (Encoder, ImagePreparer, TokenCounter, CaptionTokenizer, CardProvider)
    )
    left, right = pooled_images(encoders / "vit", image), pooled_text(encoders / "bert", text)
    if unit:
        left, right = normalize(left, dim=1), normalize(right, dim=1)
    left, right = left @ maps["image.weight"].T, right @ maps["text.weight"].T
    if bias:
        left, right = left + maps["image.bias"], right + maps["text.bias"]
    theirs = torch.stack([torch.cosine_similarity(one[None], right) for one in left])
    ours = model.embed_images(pictures()) @ model.embed_texts(CAPTIONS).T
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["mean", "cls", "max"])
def test_sentences_are_pooled_as_their_folder_says(
    encoders: Path, tmp_path: Path, mode: str
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = Transformer(str(encoders / "bert"), max_seq_length=40)
    pooling = Pooling(24, pooling_mode=mode)
    theirs = SentenceTransformer(modules=[words, pooling, Normalize()], device="cpu")
    theirs.save(str(tmp_path / "sentences"))
    sides = JoinedSpec(Side(str(encoders / "vit")), Side("../sentences"))
    maps = heads() | {"text.weight": torch.eye(24), "image.weight": torch.randn(24, 32)}
    save_joined(tmp_path / "joined", sides, maps)
    model: Any = load_model(str(tmp_path / "joined"))
    expected = theirs.encode(list(CAPTIONS), convert_to_tensor=True)
    torch.testing.assert_close(model.embed_texts(CAPTIONS), expected, rtol=1e-4, atol=1e-5)
    assert model.context == 40


def test_limits_batches_and_card(encoders: Path, tmp_path: Path) -> None:
    sides = JoinedSpec(Side(str(encoders / "vit")), Side(str(encoders / "bert")))
    save_joined(tmp_path / "joined", sides, heads())
    model: Any = load_model(str(tmp_path / "joined"))
    assert model.context == 64
    with pytest.raises(InputError, match="reads 64"):
        model.embed_texts([LONG])
    with pytest.raises(InputError, match="a caption is empty"):
        model.embed_texts([""])
    together = model.embed_texts(CAPTIONS)
    alone = torch.cat([model.embed_texts([caption]) for caption in CAPTIONS])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    images = pictures()
    prepared = [model.prepare_image(image) for image in images]
    torch.testing.assert_close(model.embed_images(prepared), model.embed_images(images))
    assert model.resize_crop.to_bytes(images[0]).tolist() == prepared[0].tolist()
    assert model.card.family == "joined encoders"
    assert "joined in 16 dimensions" in model.card.notes[0]
    report = check_model(model)
    assert report.failed == ()
    half: Any = load_model(str(tmp_path / "joined"), dtype="bf16", cut=True)
    assert half.embed_texts([LONG]).dtype == torch.float32
    assert half.fingerprint != model.fingerprint


def test_other_heads_are_another_model(encoders: Path, tmp_path: Path) -> None:
    sides = JoinedSpec(Side(str(encoders / "vit")), Side(str(encoders / "bert")))
    maps = heads()
    save_joined(tmp_path / "a", sides, maps)
    save_joined(tmp_path / "b", sides, maps)
    maps["text.weight"][0, 0] += 1
    save_joined(tmp_path / "c", sides, maps)
    first, same, other = (load_model(str(tmp_path / each)).fingerprint for each in "abc")
    assert first == same != other


def test_the_image_side_of_a_whole_clip(encoders: Path, tmp_path: Path) -> None:
    network: CLIPModel = save_clip(tmp_path / "clip")
    sides = JoinedSpec(Side(str(tmp_path / "clip"), normalise=False), Side(str(encoders / "bert")))
    maps = heads() | {"image.weight": network.visual_projection.weight}
    save_joined(tmp_path / "joined", sides, maps)
    joined: Any = load_model(str(tmp_path / "joined"))
    clip: Any = load_model(str(tmp_path / "clip"))
    torch.testing.assert_close(joined.embed_images(pictures()), clip.embed_images(pictures()))


def test_timm_encoders(encoders: Path, tmp_path: Path) -> None:
    import_open_clip()
    import timm
    import timm.data

    library: Any = timm
    network = randomised(library.create_model("test_vit", pretrained=False, num_classes=10))
    save_file(network.state_dict(), tmp_path / "vit.safetensors")
    sides = JoinedSpec(
        Side("test_vit", kind="timm", weights="../vit.safetensors", normalise=False),
        Side(str(encoders / "bert")),
    )
    maps = heads() | {"image.weight": torch.eye(64)[:16]}
    save_joined(tmp_path / "joined", sides, maps)
    model: Any = load_model(str(tmp_path / "joined"))
    images = pictures()
    resolved: Any = timm.data
    config = resolved.resolve_model_data_config(network)
    size = config["input_size"][1]
    scaled = int(size / config["crop_pct"])
    rows = []
    for image in images:
        short = min(image.size)
        width, height = (int(scaled * side / short) for side in image.size)
        resized = image.convert("RGB").resize((width, height), 3)
        left, top = round((width - size) / 2), round((height - size) / 2)
        cropped = resized.crop((left, top, left + size, top + size))
        pixels = torch.tensor(list(cropped.tobytes())).view(size, size, 3).permute(2, 0, 1) / 255
        mean, std = (torch.tensor(config[key])[:, None, None] for key in ("mean", "std"))
        with torch.no_grad():
            vector = network.forward_head(
                network.forward_features(((pixels - mean) / std)[None]), pre_logits=True
            )
        rows.append(vector[0, :16])
    torch.testing.assert_close(
        model.embed_images(images), normalize(torch.stack(rows), dim=1), rtol=1e-4, atol=1e-5
    )

    del (weights := network.state_dict())["norm.weight"]
    save_file(weights, tmp_path / "vit.safetensors")
    with pytest.raises(InputError, match=r"vit.safetensors: the weights lack 'norm.weight'"):
        load_model(str(tmp_path / "joined"))


@pytest.mark.parametrize(
    ("config", "pool"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "first"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, "last"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ],
)
def test_old_and_new_pooling_files(tmp_path: Path, config: dict[str, Any], pool: str) -> None:
    modules = [{"type": "a.Transformer", "path": ""}, {"type": "b.Pooling", "path": "1_Pooling"}]
    assert read_sentence_pooling(tmp_path) == ""
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="does not exist"):
        read_sentence_pooling(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert read_sentence_pooling(tmp_path) == pool
    both = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(both))
    with pytest.raises(InputError, match="pools by cls, mean, which is not known here"):
        read_sentence_pooling(tmp_path)
    (tmp_path / "modules.json").write_text(json.dumps([*modules, {"type": "Dense", "path": "2"}]))
    with pytest.raises(InputError, match="has a module 'Dense'"):
        read_sentence_pooling(tmp_path)


def broken(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / "joined.json").read_text())
    (folder / "joined.json").write_text(json.dumps(content | changes))


def test_what_cannot_be_used_is_told(encoders: Path, tmp_path: Path) -> None:
    folder = tmp_path / "joined"
    sides = JoinedSpec(Side(str(encoders / "vit")), Side(str(encoders / "bert")))
    save_joined(folder, sides, heads())
    joining, found = read_joined(folder)
    assert joining == sides
    assert found.keys() == heads().keys()
    with pytest.raises(InputError, match="is not empty"):
        save_joined(folder, sides, heads())
    save_joined(tmp_path / "wide", sides, heads(text=30))
    wide: Any = load_model(str(tmp_path / "wide"))
    with pytest.raises(InputError, match="takes 30 numbers and its encoder gives 24"):
        wide.embed_texts(CAPTIONS)
    with pytest.raises(InputError, match=r"needed are image.weight and text.weight"):
        save_joined(tmp_path / "none", sides, {"image.weight": torch.eye(3)})
    with pytest.raises(InputError, match="do not fit together"):
        save_joined(tmp_path / "none", sides, heads() | {"text.weight": torch.eye(24)})
    assert not (tmp_path / "none").exists()

    with pytest.raises(InputError, match=r"holds no joined.json"):
        load_model(f"joined:{encoders / 'vit'}")
    broken(folder, format="contrapose-joined-9")
    with pytest.raises(InputError, match="is of format 'contrapose-joined-9'"):
        load_model(str(folder))
    broken(folder, format="contrapose-joined-1", image={"source": "x", "pool": "middle"})
    with pytest.raises(InputError, match=r"joined.json: cannot be read .*'middle'"):
        load_model(str(folder))
    (folder / "joined.json").write_text("[")
    with pytest.raises(InputError, match=r"joined.json, line 1: is not valid JSON"):
        load_model(str(folder))
    save_joined(tmp_path / "cut", sides, heads())
    (tmp_path / "cut" / "heads.safetensors").write_bytes(b"123")
    with pytest.raises(InputError, match=r"heads.safetensors: cannot be read"):
        load_model(str(tmp_path / "cut"))
