"""A whole model as the encoder of a side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

import contrapose as cp
from contrapose.engine.score_types import require_score
from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.conformance import check_model
from contrapose.models.joined import JoinedSpec, Side, save_joined, save_side
from contrapose.models.masking.images import can_mask_pixels
from tests.models.hf.small import CAPTIONS, LONG, pictures, save_clip, save_siglip


def heads(image: int, text: int) -> dict[str, torch.Tensor]:
    make = torch.Generator().manual_seed(1)
    return {
        "image.weight": torch.randn(5, image, generator=make),
        "text.weight": torch.randn(5, text, generator=make),
        "text.bias": torch.randn(5, generator=make),
    }


def test_both_sides_of_one_model(tmp_path: Path) -> None:
    save_clip(tmp_path / "clip")
    plain: Any = load_model(str(tmp_path / "clip"))
    side = Side("../clip", kind="model")
    width = plain.embed_texts(CAPTIONS[:1]).shape[1]
    maps = heads(width, width)
    save_joined(tmp_path / "joined", JoinedSpec(side, side), maps)
    found: Any = load_model(str(tmp_path / "joined"))
    seen = normalize(plain.embed_images(pictures()) @ maps["image.weight"].T, dim=1)
    torch.testing.assert_close(found.embed_images(pictures()), seen)
    read = plain.embed_texts(CAPTIONS) @ maps["text.weight"].T + maps["text.bias"]
    torch.testing.assert_close(found.embed_texts(CAPTIONS), normalize(read, dim=1))
    assert found.image.model is found.text.model
    own = sum(head.numel() for head in maps.values())
    assert found.card.parameters == plain.card.parameters + own
    assert "with a head a side" in found.card.notes[0]
    assert (found.context, found.cuts) == (plain.context, False)
    assert found.token_counts(CAPTIONS) == plain.token_counts(CAPTIONS)
    assert found.text_masks == plain.text_masks
    assert found.pixel_mean == plain.pixel_mean
    assert can_mask_pixels(found)
    assert check_model(found).failed == ()
    with pytest.raises(InputError, match="reads"):
        found.embed_texts([LONG])
    cut: Any = load_model(str(tmp_path / "joined"), cut=True)
    assert cut.cuts
    cut.embed_texts([LONG])
    assert cut.fingerprint != found.fingerprint


def test_sides_of_two_models(tmp_path: Path) -> None:
    save_clip(tmp_path / "clip")
    save_siglip(tmp_path / "siglip")
    models: list[Any] = [load_model(str(tmp_path / each)) for each in ("clip", "siglip")]
    wide = [model.embed_texts(CAPTIONS[:1]).shape[1] for model in models]
    sides = JoinedSpec(Side("../clip", kind="model"), Side("../siglip", kind="model"))
    maps = heads(*wide)
    save_joined(tmp_path / "joined", sides, maps)
    found: Any = load_model(f"joined:{tmp_path / 'joined'}")
    seen = normalize(models[0].embed_images(pictures()) @ maps["image.weight"].T, dim=1)
    torch.testing.assert_close(found.embed_images(pictures()), seen)
    assert found.card.parameters > sum(model.card.parameters for model in models)
    assert found.context == models[1].context


def test_a_built_in_model(tmp_path: Path) -> None:
    side = Side("tiny-clip", kind="model")
    width = load_model("tiny-clip").embed_texts(["a ball"]).shape[1]  # type: ignore[attr-defined]
    save_joined(tmp_path / "joined", JoinedSpec(side, side), heads(width, width))
    found: Any = load_model(str(tmp_path / "joined"))
    picture = pictures()[0]
    prepared = found.prepare_image(picture)
    assert found.normalize_image(prepared) is prepared
    assert found.resize_crop is None
    torch.testing.assert_close(found.embed_images([prepared]), found.embed_images([picture]))


def test_a_name_that_leads_nowhere(tmp_path: Path) -> None:
    side = Side("nonsense", kind="model")
    save_joined(tmp_path / "joined", JoinedSpec(side, side), heads(4, 4))
    with pytest.raises(InputError, match="there is no model 'nonsense'"):
        load_model(str(tmp_path / "joined"))


CODE = """
from contrapose.models import load_model
from pathlib import Path

Path(__file__).with_name("ran").touch()

def load(name):
    model = load_model("tiny-clip")
    return model
"""


@pytest.mark.parametrize("nested", [False, True])
def test_code_that_a_folder_names_needs_the_users_trust(tmp_path: Path, nested: bool) -> None:
    (tmp_path / "code.py").write_text(CODE)
    side = Side(f"{tmp_path / 'code.py'}:load", kind="model")
    width = load_model("tiny-clip").embed_texts(["a ball"]).shape[1]  # type: ignore[attr-defined]
    folder = tmp_path / "joined"
    save_joined(folder, JoinedSpec(side, side), heads(width, width))
    if nested:
        outer = Side(str(folder), kind="model")
        folder = tmp_path / "outer"
        save_joined(folder, JoinedSpec(outer, outer), heads(5, 5))
    for load in (load_model, cp.check_model):
        with pytest.raises(InputError, match=r"code\.py:load.*trust_remote_code"):
            load(str(folder))
        assert not (tmp_path / "ran").exists()
    load_model(str(folder), trust_remote_code=True)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(("side", "with_head"), [("image", True), ("image", False), ("text", True)])
def test_one_side_alone(tmp_path: Path, side: str, with_head: bool) -> None:
    plain: Any = load_model("tiny-clip")
    width = plain.embed_texts(CAPTIONS[:1]).shape[1]
    both: dict[str, Any] = {"image": None, "text": None, side: Side("tiny-clip", kind="model")}
    maps = {f"{side}.weight": torch.eye(5, width)} if with_head else {}
    save_joined(tmp_path / "joined", JoinedSpec(**both), maps)
    model: Any = load_model(f"joined:{tmp_path / 'joined'}")
    assert model.sides == (side,)
    inputs: dict[str, Any] = {"image": pictures(), "text": ["a red cube", "a ball"]}
    embed = {"image": model.embed_images, "text": model.embed_texts}
    vectors = embed[side](inputs[side])
    theirs = {"image": plain.embed_images, "text": plain.embed_texts}[side](inputs[side])
    expected = normalize(theirs @ maps[f"{side}.weight"].T, dim=1) if maps else theirs
    torch.testing.assert_close(vectors, expected)
    other = {"image": "text", "text": "image"}[side]
    with pytest.raises(InputError, match=f"cannot embed.*{side} encoder alone"):
        embed[other](inputs[other])
    with pytest.raises(InputError, match="encoder alone"):
        require_score(model, "itc")
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for picture, file in zip(pictures(), files, strict=False):
        picture.save(file)
    if side == "image":
        assert cp.index(files, model=model, out=tmp_path / "index").added == 2
        index = cp.load_index(tmp_path / "index", model=model)
        assert [hit.path for hit in cp.search(index, image=files[0], k=1).hits] == ["b.png"]
        with pytest.raises(InputError, match="cannot embed captions"):
            cp.search(index, text="a red cube")
    else:
        with pytest.raises(InputError, match="cannot embed images"):
            cp.index(files, model=model, out=tmp_path / "index")
    assert (model.space == plain.fingerprint) is not with_head
    with pytest.raises(InputError, match=f"needed are {side}.weight"):
        save_joined(tmp_path / "wrong", JoinedSpec(**both), {f"{other}.weight": torch.eye(5)})


def test_sides_of_one_space(tmp_path: Path) -> None:
    plain: Any = load_model("tiny-clip")
    width = plain.embed_texts(CAPTIONS[:1]).shape[1]
    side = Side("tiny-clip", kind="model")
    save_joined(tmp_path / "both", JoinedSpec(side, side), heads(width, width))
    both: Any = load_model(f"joined:{tmp_path / 'both'}")
    for name in ("image", "text"):
        save_side(tmp_path / "both", name, tmp_path / name)
        alone: Any = load_model(f"joined:{tmp_path / name}")
        assert (alone.sides, alone.space) == ((name,), both.space)
        assert alone.fingerprint != both.fingerprint
    torch.testing.assert_close(alone.embed_texts(CAPTIONS), both.embed_texts(CAPTIONS))
    with pytest.raises(InputError, match="no image encoder"):
        save_side(tmp_path / "text", "image", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    spec = tmp_path / "text" / "joined.json"
    content = json.loads(spec.read_text())
    spec.write_text(json.dumps({**content, "space": 3}))
    with pytest.raises(InputError, match="space"):
        load_model(f"joined:{tmp_path / 'text'}")
