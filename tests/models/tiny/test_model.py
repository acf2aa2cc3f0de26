"""The shipped models: the same answers in any batch, clear refusals, and a floor they must hold."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import (
    Captioner,
    CardProvider,
    Encoder,
    ImageCacher,
    ImagePreparer,
    Matcher,
    TokenCounter,
    check_model,
    load_model,
)
from contrapose.models.conformance import model_checks
from contrapose.models.tiny.model import Tiny, TinyClip, scale_pixels
from contrapose.models.tiny.network import START
from contrapose.world.captions import describe
from contrapose.world.render import render
from contrapose.world.sample import sample_scenes

COUNT = 12
SPLITS = (1, 5)


@pytest.fixture(scope="module")
def tiny() -> Tiny:
    model = load_model("tiny")
    assert isinstance(model, Tiny)
    return model


@pytest.fixture(scope="module")
def clip() -> TinyClip:
    model = load_model("tiny-clip")
    assert isinstance(model, TinyClip)
    return model


@pytest.fixture(scope="module")
def pairs() -> tuple[list[Image.Image], list[str]]:
    """Pictures with captions of many lengths."""
    scenes = sample_scenes(COUNT, 31, things=3)
    images = [Image.fromarray(each) for each in render(scenes).images.numpy()]
    texts = []
    for i, scene in enumerate(scenes):
        caption = describe(scene, np.random.default_rng(i))
        texts.append("a thing" if caption is None else caption.text)
    texts[3] = "a zebra"
    assert len({len(text.split()) for text in texts}) > 3
    return images, texts


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to 1e-4 of the size of the numbers."""
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= 1e-4 * float(expected.abs().max())


def logprobs(
    model: Tiny, images: list[Image.Image] | list[torch.Tensor], texts: list[str], size: int
) -> list[torch.Tensor]:
    """The numbers of each caption, asked in batches of a size."""
    found: list[torch.Tensor] = []
    for start in range(0, len(texts), size):
        ragged = model.token_logprobs(images[start : start + size], texts[start : start + size])
        found += [ragged.values[a:b] for a, b in pairwise(ragged.offsets)]
    return found


@pytest.mark.parametrize("name", ["tiny", "tiny-clip"])
@pytest.mark.parametrize("size", SPLITS)
def test_vectors_do_not_depend_on_the_batch(
    name: str, size: int, request: pytest.FixtureRequest, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    model: TinyClip = request.getfixturevalue("tiny" if name == "tiny" else "clip")
    images, texts = pairs
    starts = range(0, COUNT, size)
    seen = torch.cat([model.embed_images(images[i : i + size]) for i in starts])
    read = torch.cat([model.embed_texts(texts[i : i + size]) for i in starts])
    close(seen, model.embed_images(images))
    close(read, model.embed_texts(texts))
    for vectors in (seen, read):
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(COUNT))
    turned = model.embed_texts(texts[::-1]).flip(0)
    close(turned, read)


@pytest.mark.parametrize("size", SPLITS)
def test_judgements_do_not_depend_on_the_batch(
    tiny: Tiny, size: int, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    images, texts = pairs
    parts = [tiny.match(images[i : i + size], texts[i : i + size]) for i in range(0, COUNT, size)]
    close(torch.cat(parts), tiny.match(images, texts))


@pytest.mark.parametrize("size", SPLITS)
def test_likelihoods_do_not_depend_on_the_batch(
    tiny: Tiny, size: int, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    images, texts = pairs
    for found, expected in zip(
        logprobs(tiny, images, texts, size), logprobs(tiny, images, texts, COUNT), strict=True
    ):
        close(found, expected)


def test_the_same_question_has_the_same_answer(
    tiny: Tiny, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    images, texts = pairs
    again = load_model("tiny")
    assert isinstance(again, Tiny)
    assert again.fingerprint == tiny.fingerprint
    assert torch.equal(tiny.embed_images(images), again.embed_images(images))
    assert torch.equal(tiny.match(images, texts), again.match(images, texts))
    one, other = (model.token_logprobs(images, texts) for model in (tiny, again))
    assert torch.equal(one.values, other.values)
    assert list(one.offsets) == list(other.offsets)


def test_one_picture_for_many_captions(
    tiny: Tiny, pairs: tuple[list[Image.Image], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, texts = pairs
    mixed = [images[i % 2] for i in range(COUNT)]
    copies = [image.copy() for image in mixed]
    expected = tiny.match(copies, texts)
    likely = tiny.token_logprobs(copies, texts).values
    looked: list[int] = []
    plain = tiny.pixels

    def spy(asked: list[Image.Image]) -> torch.Tensor:
        looked.append(len(asked))
        return plain(asked)

    monkeypatch.setattr(tiny, "pixels", spy)
    close(tiny.match(mixed, texts), expected)
    close(tiny.token_logprobs(mixed, texts).values, likely)
    assert looked == [2, 2]


def test_likelihoods_are_of_the_caption_and_its_end(
    tiny: Tiny, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    images, texts = pairs
    ragged = tiny.token_logprobs(images, texts)
    lengths = [len(tiny.tokenizer.encode(text)) + 1 for text in texts]
    assert list(ragged.offsets) == [0, *np.cumsum(lengths)]
    assert len(ragged.values) == sum(lengths)
    assert (ragged.values <= 0).all()
    assert torch.isfinite(ragged.values).all()
    assert tiny.lm_tokens == "caption+end"


def test_probabilities_of_all_that_can_follow_add_up(tiny: Tiny) -> None:
    """A caption of one token: P(it, end) summed over tokens is below 1, and so is each."""
    image = Image.new("RGB", (96, 96), (180, 170, 160))
    words = list(tiny.tokenizer.words)
    ragged = tiny.token_logprobs([image] * len(words), words)
    sums = [float(ragged.values[a:b].sum()) for a, b in pairwise(ragged.offsets)]
    assert max(sums) <= 0
    first = ragged.values[list(ragged.offsets[:-1])].exp().sum()
    assert 0.5 < float(first) <= 1 + 1e-5
    assert sum(np.exp(sums)) <= 1


def test_what_is_there_is_likelier_than_what_is_not(
    tiny: Tiny, clip: TinyClip, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    images, texts = pairs
    keep = [i for i in range(COUNT) if i != 3]
    images, texts = [images[i] for i in keep], [texts[i] for i in keep]
    wrong = texts[1:] + texts[:1]
    assert (tiny.match(images, texts) > tiny.match(images, wrong)).float().mean() > 0.8
    for model in (tiny, clip):
        seen = model.embed_images(images)
        right_, wrong_ = ((seen * model.embed_texts(each)).sum(1) for each in (texts, wrong))
        assert (right_ > wrong_).float().mean() > 0.8


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_caption(
    tiny: Tiny, clip: TinyClip, text: str, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    image = pairs[0][:2]
    for model in (tiny, clip):
        with pytest.raises(InputError, match="a caption is empty"):
            model.embed_texts(["a ball", text])
    with pytest.raises(InputError, match="a caption is empty"):
        tiny.match(image, ["a ball", text])
    with pytest.raises(InputError, match="a caption is empty"):
        tiny.token_logprobs(image, ["a ball", text])


def test_a_caption_that_is_too_long(tiny: Tiny, clip: TinyClip) -> None:
    longest = " ".join(["red"] * 62)
    for model in (tiny, clip):
        assert model.embed_texts([longest]).shape == (1, 128)
        assert not model.cuts
        assert model.token_counts([longest, longest + " ball"]) == [model.context, 65]
        with pytest.raises(InputError, match=rf"65 tokens and {model.name} reads 64.*long=cut"):
            model.embed_texts([longest + " ball"])


def test_a_caption_that_is_cut(tiny: Tiny, pairs: tuple[list[Image.Image], list[str]]) -> None:
    cutting = load_model("tiny,long=cut")
    assert isinstance(cutting, Tiny)
    assert cutting.cuts
    assert cutting.name == "tiny,long=cut"
    assert cutting.fingerprint != tiny.fingerprint
    longest = " ".join(["red"] * 62)
    image = pairs[0][0]
    texts = [longest, longest + " blue ball", "a ball"]
    assert cutting.token_counts(texts)[1] == 66
    close(cutting.embed_texts(texts), tiny.embed_texts([longest, longest, "a ball"]))
    close(cutting.match([image], texts[1:2]), tiny.match([image], [longest]))
    close(
        cutting.token_logprobs([image], texts[1:2]).values,
        tiny.token_logprobs([image], [longest]).values,
    )
    with pytest.raises(InputError, match="a caption is empty"):
        cutting.embed_texts([" "])


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_half_precision_gives_float32(
    tiny: Tiny, dtype: str, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    images, texts = pairs[0][:2], pairs[1][:2]
    half = load_model("tiny", dtype=dtype)
    assert isinstance(half, Tiny)
    assert half.name == f"tiny,dtype={dtype}"
    assert half.card.dtype == dtype
    assert half.fingerprint != tiny.fingerprint
    answers = [
        (
            model.embed_images(images),
            model.embed_texts(texts),
            model.match(images, texts),
            model.token_logprobs(images, texts).values,
        )
        for model in (half, tiny)
    ]
    for rough, fine in zip(*answers, strict=True):
        assert rough.dtype == torch.float32
        assert not torch.equal(rough, fine)
        assert float((rough - fine).norm()) < 0.05 * float(fine.norm())


@pytest.mark.parametrize("name", ["tiny", "tiny-clip"])
def test_it_conforms(name: str) -> None:
    report = check_model(load_model(name), load=lambda: load_model(name))
    assert report.failed == ()
    assert report.model == name
    assert report.tolerance == 1e-4
    done = {each.name for each in report.findings if each.outcome == "passed"}
    assert {"card", "context", "token-counts", "prepared-images", "threads"} <= done


@pytest.mark.parametrize("name", ["tiny,long=cut", "tiny-clip,long=cut"])
def test_captions_conform_where_they_are_cut(name: str) -> None:
    checks = {str(check): check for check in model_checks(lambda: load_model(name))}
    for check in ("context", "token-counts", "cut-caption", "odd-captions"):
        checks[check]()


def test_prepared_images_are_as_good(
    tiny: Tiny, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    images = [pairs[0][0].resize((50, 20)), *pairs[0][1:3]]
    prepared = [tiny.prepare_image(image) for image in images]
    mixed: list[Image.Image | torch.Tensor] = [prepared[0], images[1], prepared[2]]
    assert torch.equal(tiny.embed_images(mixed), tiny.embed_images(images))
    assert torch.equal(tiny.match(mixed, pairs[1][:3]), tiny.match(images, pairs[1][:3]))


def test_cards(tiny: Tiny, clip: TinyClip) -> None:
    assert tiny.card.family == "tiny (BLIP-like)"
    assert clip.card.family == "tiny (CLIP-like)"
    for model in (tiny, clip):
        count = sum(weight.numel() for weight in model.network.parameters())
        assert model.card.parameters == count
        assert (model.card.context, model.card.dtype) == (64, "fp32")
        assert "96×96" in model.card.preprocessing


def test_pictures_of_any_kind(tiny: Tiny) -> None:
    grey = Image.new("L", (200, 50), 128)
    color = Image.new("RGB", (96, 96), (128, 128, 128))
    close(tiny.embed_images([grey]), tiny.embed_images([color]))
    black, white = (tiny.pixels([Image.new("RGB", (96, 96), c)]) for c in ("black", "white"))
    assert black.shape == (1, 3, 96, 96)
    assert torch.equal(black, -torch.ones_like(black))
    assert torch.equal(white, torch.ones_like(white))


def test_captions_that_share_a_row_are_as_alone(
    tiny: Tiny, pairs: tuple[list[Image.Image], list[str]]
) -> None:
    """Against the network as it is trained: one caption, one image, all positions."""
    images = [image for image in pairs[0][:2] for _ in range(6)]
    long = "a red ball left of a blue cube, and a green cone"
    texts = [*pairs[1][:3], "a ball", long, "a cube"] * 2
    found = tiny.token_logprobs(images, texts)
    fusion = tiny.network.fusion
    assert fusion is not None
    for i, (image, text) in enumerate(zip(images, texts, strict=True)):
        tokens = tiny.tokens([text], START)
        with torch.no_grad():
            logits = fusion.logits(tokens[:, :-1], tiny.network.image(tiny.pixels([image])))
        wanted = logits.log_softmax(dim=-1)[0].gather(1, tokens[0, 1:, None])[:, 0]
        close(found.values[found.offsets[i] : found.offsets[i + 1]], wanted)


def test_looked_images_are_as_good(tiny: Tiny, pairs: tuple[list[Image.Image], list[str]]) -> None:
    images, texts = pairs[0][:3], pairs[1][:3]
    looked = tiny.encode_images(images)
    wanted = tiny.token_logprobs(images, texts).values
    close(tiny.token_logprobs(looked, texts).values, wanted)
    close(tiny.token_logprobs([looked[0], images[1], looked[2]], texts).values, wanted)
    seen: list[int] = []
    hook = tiny.network.image.register_forward_pre_hook(lambda *_: seen.append(1))
    tiny.token_logprobs(looked, texts)
    hook.remove()
    assert not seen
    assert tiny.encode_images([]) == []


def test_noise_is_seeded(tiny: Tiny) -> None:
    one, again, other = (tiny.noise_images(3, seed) for seed in (5, 5, 6))
    assert len(one) == 3
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert not torch.equal(one[0], one[1])
    assert torch.equal(tiny.noise_images(1, 5)[0], one[0])
    assert one[0].shape == (3, 96, 96)
    assert float(torch.stack(one).mean()) == pytest.approx(Tiny.noise_mean, abs=0.01)
    assert float(torch.stack(one).std()) == pytest.approx(Tiny.noise_std, abs=0.01)


def test_noise_has_the_mean_and_spread_of_the_training_pictures() -> None:
    pictures = scale_pixels(render(sample_scenes(100, 0)).images)
    assert float(pictures.mean()) == pytest.approx(Tiny.noise_mean, abs=0.02)
    assert float(pictures.std()) == pytest.approx(Tiny.noise_std, abs=0.02)


def test_noise_has_a_likelihood(tiny: Tiny) -> None:
    noise = tiny.noise_images(2, 0)
    found = logprobs(tiny, noise, ["a red ball", "a pink zebra"], 2)
    assert all(torch.isfinite(each).all() for each in found)
    assert float(found[0].mean()) > float(found[1].mean())


def test_what_each_model_can_do(tiny: Tiny, clip: TinyClip) -> None:
    for kind in (Encoder, Matcher, Captioner, ImageCacher):
        assert isinstance(tiny, kind)
    for model in (tiny, clip):
        assert all(isinstance(model, kind) for kind in (ImagePreparer, TokenCounter, CardProvider))
    assert isinstance(clip, Encoder)
    assert not isinstance(clip, Matcher)
    assert not isinstance(clip, Captioner)
    assert not hasattr(clip, "match")
    assert not hasattr(clip, "token_logprobs")
    assert tiny.fingerprint != clip.fingerprint


def right(model: TinyClip, part: str, score: str) -> float:
    request = EvalRequest(("scenes",), (score,), subsets=(part,), limit=40, resamples=10)
    (run,) = evaluate_models([model], request)
    accuracy = run.results.subsets[part]["accuracy"]
    assert accuracy.n == 40
    return accuracy.value


@pytest.mark.parametrize(
    ("part", "score"),
    [("replace-color", "itc"), ("swap-attribute", "lm"), ("swap-relation", "lm")],
)
def test_the_floor_of_the_shipped_weights(tiny: Tiny, part: str, score: str) -> None:
    assert right(tiny, part, score) >= 0.9


def test_the_patient_knows_colours_and_is_a_bag_of_words(clip: TinyClip) -> None:
    assert right(clip, "replace-color", "itc") >= 0.9
    assert right(clip, "swap-relation", "itc") <= 0.7
