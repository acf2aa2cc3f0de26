"""A language model as a source: checked, asked again, kept, and stopped without loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from contrapose.build.captions import (
    REWRITTEN,
    CaptionRecord,
    Recipe,
    Rewriter,
    make_pairs,
    parse_kinds,
)
from contrapose.build.captions.rewriter import TASKS, clean_reply
from contrapose.models import Prompt, Reply
from contrapose.models.capabilities import mark_arrived
from contrapose.models.endpoint import EndpointError

SYNONYM = ("rewrite-synonym",)


@dataclass
class Writer:
    """A model in this process: what it says is a function of the prompt."""

    says: Callable[[str], str]
    after: int | None = None
    name: str = "writer"
    fingerprint: str = "writer-1"
    batch_size: int = 2
    asked: list[str] = field(default_factory=list)

    error: type[BaseException] = EndpointError
    kept: dict[str, Reply] = field(default_factory=dict)

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        if len(prompts) == 1 and prompts[0].text in self.kept:
            return [self.kept.pop(prompts[0].text)]
        replies: list[Reply] = []
        for prompt in prompts:
            if self.after is not None and len(self.asked) >= self.after:
                self.kept = {one.text: reply for one, reply in zip(prompts, replies, strict=False)}
                stop = self.error("no more.")
                mark_arrived(stop, range(len(replies)))
                raise stop
            self.asked.append(prompt.text)
            assert prompt.images == ()
            replies.append(Reply(self.says(prompt.text)))
        return replies


def caption_of(prompt: str) -> str:
    return prompt.partition("changed sentence. ")[2].partition("\n")[0]


def to_meadow(prompt: str) -> str:
    return caption_of(prompt).replace("field", "meadow")


def test_good_reply_is_accepted() -> None:
    model = Writer(to_meadow)
    rewriter = Rewriter(model)
    ((made,),) = rewriter.rewrites(["A cow in a field."], SYNONYM)
    assert made.text == "A cow in a meadow."
    assert made.kind == "rewrite-synonym"
    assert len(model.asked) == 1
    assert rewriter.counts["accepted"] == 1


def test_retry_names_the_reason() -> None:
    def learns(prompt: str) -> str:
        return to_meadow(prompt) if "not accepted" in prompt else "A bull on a wide meadow."

    model = Writer(learns)
    rewriter = Rewriter(model)
    ((made,),) = rewriter.rewrites(["A cow in a field."], SYNONYM)
    assert made.text == "A cow in a meadow."
    assert len(model.asked) == 2
    assert "exactly one word" in model.asked[1]
    assert rewriter.counts["refused"] == 1


def test_rewrite_is_given_up_after_all_attempts() -> None:
    model = Writer(lambda _: "I cannot do that.")
    rewriter = Rewriter(model, attempts=3)
    assert rewriter.rewrites(["A cow in a field."], SYNONYM) == [[]]
    assert len(model.asked) == 3
    assert len(set(model.asked)) == 3
    assert rewriter.counts["given up"] == 1


def test_replies_are_cached(tmp_path: Path) -> None:
    captions = ["A cow in a field.", "A dog in a field."]
    first = Rewriter(Writer(to_meadow), tmp_path).rewrites(captions, SYNONYM)
    silent = Writer(lambda _: pytest.fail("asked again"))
    again = Rewriter(silent, tmp_path)
    assert again.rewrites(captions, SYNONYM) == first
    assert again.counts["from the cache"] == 2
    other = Writer(to_meadow, fingerprint="writer-2")
    Rewriter(other, tmp_path).rewrites(captions, SYNONYM)
    assert len(other.asked) == 2


def test_truncated_line_is_skipped(tmp_path: Path) -> None:
    captions = ["A cow in a field.", "A dog in a field."]
    Rewriter(Writer(to_meadow), tmp_path).rewrites(captions, SYNONYM)
    (file,) = tmp_path.rglob("*.jsonl")
    file.write_text(file.read_text()[:-9])
    model = Writer(to_meadow)
    made = Rewriter(model, tmp_path).rewrites(captions, SYNONYM)
    assert [one[0].text for one in made] == ["A cow in a meadow.", "A dog in a meadow."]
    assert len(model.asked) == 1
    last = Writer(to_meadow)
    Rewriter(last, tmp_path).rewrites(captions, SYNONYM)
    assert last.asked == []


@pytest.mark.parametrize("error", [EndpointError, KeyboardInterrupt])
def test_failure_keeps_replies(tmp_path: Path, error: type[BaseException]) -> None:
    captions = [f"A cow in a field with {n} trees." for n in range(5)]
    with pytest.raises(error, match="no more"):
        Rewriter(Writer(to_meadow, after=3, error=error), tmp_path).rewrites(captions, SYNONYM)
    model = Writer(to_meadow)
    made = Rewriter(model, tmp_path).rewrites(captions, SYNONYM)
    assert len(model.asked) == 2
    assert all(made)


def test_swap_needs_an_and() -> None:
    assert TASKS["rewrite-swap"].takes("a cat and a dog")
    assert not TASKS["rewrite-swap"].takes("a cat on a dog")
    assert not TASKS["rewrite-swap"].takes("a cat and a dog " * 5)
    assert set(TASKS) == set(REWRITTEN)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("A cat.", "A cat."),
        ('"A cat."', "A cat."),
        ("Sure! Here is the sentence:\n\n“A cat.”\nI changed a word.", "A cat."),
        ("Output: a cat", "a cat"),
        ("**A cat**", "A cat"),
        ("\n \n", ""),
    ],
)
def test_reply_is_cleaned(reply: str, text: str) -> None:
    assert clean_reply(reply) == text


def test_pairs_include_rewrites() -> None:
    rewriter = Rewriter(Writer(to_meadow))
    recipe = Recipe(parse_kinds(["rewrite-synonym", "object"]), per_caption=50)
    (pairs,) = make_pairs([CaptionRecord("A cow in a field.")], recipe, rewriter)
    assert [one.kind for one in pairs.positives] == ["rewrite-synonym"]
    assert {one.kind for one in pairs.negatives} == {"object"}


def test_rewritten_positive_is_not_a_negative() -> None:
    rewriter = Rewriter(Writer(lambda _: "a picture of a cub"))
    recipe = Recipe(parse_kinds(["rewrite-synonym", "rewrite-contrast"]))
    (pairs,) = make_pairs([CaptionRecord("a picture of a whelp")], recipe, rewriter)
    assert [one.text for one in pairs.positives] == ["a picture of a cub"]
    assert pairs.negatives == ()
