"""A chat model of this machine through the engine: a small LLaVA with random weights."""

from __future__ import annotations

from pathlib import Path

from contrapose.data import Example, open_image
from contrapose.data.examples import single_match
from contrapose.engine import ScoringContext
from contrapose.engine.chat import collect_replies
from contrapose.engine.chat.prompts import SUGARCREPE
from contrapose.models import Prompt
from tests.fakes import patch
from tests.models.hf.vlm.small_vlm import FAMILIES, opened


def test_the_engine_gets_what_the_model_says(tmp_path: Path) -> None:
    FAMILIES["llava"](tmp_path)
    model = opened(tmp_path)
    examples = [
        Example(f"e{i}", (patch(i),), ("a cat", "a dog"), single_match(2, 0), {}) for i in range(4)
    ]
    sheet = collect_replies(ScoringContext(model, batch_size=2), SUGARCREPE, "choice", examples)
    images = [open_image(examples[k].images[0]) for k in sheet.example.tolist()]
    direct = model.reply(
        [Prompt((image,), text) for image, text in zip(images, sheet.prompts, strict=True)]
    )
    assert sheet.replies == tuple(reply.text for reply in direct)
    assert len(set(sheet.replies)) > 1
    assert sheet.usage.questions == 8
    assert sheet.usage.tokens_in == sum(reply.tokens_in for reply in direct)
    assert sheet.usage.uncounted == 0
