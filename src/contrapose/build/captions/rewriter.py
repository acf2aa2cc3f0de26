"""A language model as a second source of captions, never trusted blindly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contrapose.build.captions.change import Rewrite
from contrapose.build.captions.prompts import TASKS, Task, cleaned
from contrapose.build.captions.replies import Replies
from contrapose.build.captions.verify import DoubtError
from contrapose.errors import InputError
from contrapose.models import Chat, Prompt, load_model
from contrapose.models.endpoint import StoppedError

ATTEMPTS = 3


@dataclass(slots=True)
class _Question:
    """One caption, one task, and what was wrong with the answers so far."""

    caption: str
    task: Task
    doubts: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        return self.task.asked(self.caption, self.doubts)


class Rewriter:
    """Asks for rewritten captions, checks them, and asks again with what was wrong.

    Attributes:
        name: the model's.
        counts: how many questions were asked and found, and replies accepted, refused, given up.
    """

    def __init__(self, model: Chat, cache: Path | None = None, attempts: int = ATTEMPTS):
        """Rewrite with a model; `cache` is the folder where replies are kept."""
        self.name = model.name
        self.counts: Counter[str] = Counter()
        self._model = model
        self._attempts = attempts
        self._replies = Replies(cache, model.fingerprint)

    def rewrites(self, captions: Sequence[str], kinds: Sequence[str]) -> list[list[Rewrite]]:
        """For each caption what was accepted, in the order of the kinds.

        Raises:
            StoppedError: the endpoint cannot go on; what it said so far is kept.
        """
        tasks = [TASKS[kind] for kind in kinds if kind in TASKS]
        open_ = {
            (caption, task.kind): _Question(caption, task)
            for caption in captions for task in tasks if task.takes(caption)
        }  # fmt: skip
        found: dict[tuple[str, str], Rewrite] = {}
        for attempt in range(self._attempts):
            if not open_:
                break
            self._ask([question.prompt for question in open_.values()])
            for key, question in list(open_.items()):
                reply = cleaned(self._replies.get(question.prompt) or "")
                try:
                    found[key] = question.task.check(question.caption, reply)
                except DoubtError as doubt:
                    self.counts["refused"] += 1
                    question.doubts = (*question.doubts, f"{doubt}; it was {reply!r}")
                    if attempt + 1 == self._attempts:
                        self.counts["given up"] += 1
                else:
                    self.counts["accepted"] += 1
                    del open_[key]
        return [
            [found[caption, task.kind] for task in tasks if (caption, task.kind) in found]
            for caption in captions
        ]

    def _ask(self, prompts: Sequence[str]) -> None:
        """Ask what is not known yet, a batch at a time, and keep each batch."""
        missing = list(dict.fromkeys(one for one in prompts if self._replies.get(one) is None))
        self.counts["from the cache"] += len(set(prompts)) - len(missing)
        size = max(1, self._model.batch_size)
        for start in range(0, len(missing), size):
            batch = missing[start : start + size]
            try:
                replies = self._model.reply([Prompt((), prompt) for prompt in batch])
            except StoppedError as error:
                came = zip(batch, error.replies, strict=False)
                self._replies.add({one: reply.text for one, reply in came if reply is not None})
                raise
            self.counts["asked"] += len(batch)
            self._replies.add(
                {prompt: reply.text for prompt, reply in zip(batch, replies, strict=True)}
            )


def load_rewriter(name: str, cache: Path | None = None, attempts: int = ATTEMPTS) -> Rewriter:
    """The rewriter of a model string, such as `openai:MODEL?url=http://host:port/v1`.

    Raises:
        InputError: the model does not chat.
    """
    model = load_model(name)
    if not isinstance(model, Chat):
        raise InputError(f"{name} does not answer in words: pass --rewriter openai:MODEL?url=….")
    return Rewriter(model, cache, attempts)
