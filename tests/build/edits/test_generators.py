"""Generators: callables of every form, and the built-in renderer."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.build.edits.generators import (
    GenerationError,
    GeneratorOptions,
    load_generator,
    to_image,
)
from contrapose.build.edits.recipe import EditPrompt, load_recipe
from contrapose.build.edits.scenes import draw_scenes
from contrapose.errors import InputError
from contrapose.world.benchmark.annotations import parse_caption
from contrapose.world.captions import is_true

PROMPT = EditPrompt("p", "object", ("a cat", "a dog"), ("cat", "dog"), 7)


def patch(color: str = "red", side: int = 16) -> Image.Image:
    return Image.new("RGB", (side, side), color)


def test_a_function_of_both_prompts() -> None:
    calls = []

    def generate(prompts: tuple[str, str], seed: int, size: int) -> list[Image.Image]:
        calls.append((prompts, seed, size))
        return [patch("red"), patch("blue")]

    generator = load_generator(generate, options=GeneratorOptions(wording="{}, in oil"))
    first, second = generator.generate(PROMPT, 64)
    assert calls == [(("a cat, in oil", "a dog, in oil"), 7, 64)]
    assert (first.getpixel((0, 0)), second.getpixel((0, 0))) == ((255, 0, 0), (0, 0, 255))
    assert generator.name == "generate"


def test_a_function_of_one_prompt_gets_the_same_seed_twice() -> None:
    calls = []

    def draw(prompt: str, seed: int) -> Image.Image:
        calls.append((prompt, seed))
        return patch()

    load_generator(draw).generate(PROMPT, 64)
    assert calls == [("a cat", 7), ("a dog", 7)]


def test_an_editor_gets_the_first_image_and_the_instruction() -> None:
    seen: list[Any] = []

    def edit(image: Image.Image, instruction: str, seed: int) -> Image.Image:
        seen.append((image.getpixel((0, 0)), instruction, seed))
        return patch("blue")

    options = GeneratorOptions(form="image")
    generator = load_generator(lambda a, b: patch("red"), edit, options)
    first, second = generator.generate(PROMPT, 64)
    assert seen == [((255, 0, 0), "change cat to dog", 7)]
    assert second.getpixel((0, 0)) == (0, 0, 255)
    assert first.getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("generator", "editor", "word"),
    [
        (lambda a, b, c: None, None, "form"),
        (3, None, "callable"),
        ("dalle", None, "diffusers"),
        ("diffusers:", None, "diffusers"),
        ("scenes", "scenes", "does not edit"),
        (lambda image, text, seed: None, None, "editor"),
    ],
)
def test_what_cannot_be_called_is_refused(generator: Any, editor: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        load_generator(generator, editor)


def test_a_wording_needs_a_slot() -> None:
    with pytest.raises(InputError, match="prompt"):
        load_generator("scenes", options=GeneratorOptions(wording="a cat"))


def png() -> bytes:
    stream = io.BytesIO()
    patch().save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    "value",
    [patch(), patch().convert("RGBA"), patch().convert("L"), [patch()], png(),
     np.zeros((9, 9, 3), dtype=np.uint8), type("Output", (), {"images": [patch()]})()],
)  # fmt: skip
def test_images_in_many_forms(value: Any) -> None:
    assert to_image(value, "g").mode == "RGB"


@pytest.mark.parametrize(
    "value",
    [None, "red.png", b"no image", np.zeros((9, 9)), patch(side=2), [patch(), patch()]],
)
def test_no_image_costs_one_pair(value: Any) -> None:
    with pytest.raises(GenerationError):
        to_image(value, "g")


def test_an_image_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAPOSE_MEGAPIXELS", "0.0001")
    with pytest.raises(GenerationError, match="too large"):
        to_image(patch(side=64), "g")


def test_what_a_function_raises_costs_one_pair() -> None:
    def broken(prompt: str, seed: int) -> None:
        raise RuntimeError("no luck")

    def exhausted(prompt: str, seed: int) -> None:
        raise MemoryError

    with pytest.raises(GenerationError, match="no luck"):
        load_generator(broken).generate(PROMPT, 64)
    with pytest.raises(MemoryError):
        load_generator(exhausted).generate(PROMPT, 64)
    with pytest.raises(InputError, match="two images"):
        load_generator(lambda prompts, seed, size: patch()).generate(PROMPT, 64)


def test_the_renderer_draws_its_lists_exactly() -> None:
    generator = load_generator("scenes")
    recipe = load_recipe(None, generator.lists)
    for prompt in recipe.draw(24, seed=4):
        scenes = draw_scenes(prompt)
        captions = [parse_caption(text.rstrip(".").lower()) for text in prompt.captions]
        for i, caption in enumerate(captions):
            assert caption is not None
            assert is_true(caption, scenes[i]) is True
            assert is_true(caption, scenes[1 - i]) is False
        assert scenes[0].camera == scenes[1].camera
        assert scenes[0].light == scenes[1].light
        assert len(scenes[0].things) == len(scenes[1].things)
    first, second = generator.generate(prompt, 48)
    assert first.size == second.size == (48, 48)
    again = generator.generate(prompt, 48)
    assert np.array_equal(np.asarray(first), np.asarray(again[0]))
    assert not np.array_equal(np.asarray(first), np.asarray(second))


@pytest.mark.parametrize(
    "captions",
    [("a red cube on top of a blue cylinder", "a red cube under a blue cylinder"),
     ("two red balls", "three red balls"), ("a large red cube", "a small red cube")],
)  # fmt: skip
def test_the_renderer_draws_other_captions(captions: tuple[str, str]) -> None:
    first, second = draw_scenes(EditPrompt("p", "k", captions, ("", ""), 3))
    assert first != second


@pytest.mark.parametrize("captions", [("a red cube", "a red dog"), ("a red cube", "a cube")])
def test_captions_that_it_cannot_draw_apart(captions: tuple[str, str]) -> None:
    with pytest.raises(GenerationError):
        draw_scenes(EditPrompt("p", "k", captions, ("", ""), 3))


def test_forms_may_be_named() -> None:
    def draw(x: str, y: int, z: int = 3) -> Image.Image:
        return patch()

    function: Callable[..., Any] = lambda *words: patch()  # noqa: E731
    for one in (draw, function):
        generator = load_generator(one, options=GeneratorOptions(form="image"))
        assert generator.generate(PROMPT, 8)[0].size == (16, 16)
