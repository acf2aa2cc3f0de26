"""Language-model rewriter of captions: prompts, a cache of replies, and verified answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from contrapose.build.captions.edits import Rewrite
from contrapose.build.captions.verification import DoubtError, verify_one_word, verify_reordering
from contrapose.errors import InputError, option
from contrapose.files.syncing import sync_file
from contrapose.models import Chat, Prompt, load_model
from contrapose.models.capabilities import arrived_positions

MAX_SWAP_WORDS = 15
"""Captions with fewer words than this are sent to be swapped, as in the paper."""

REPLY_OPENING = re.compile(
    r"^(?:sure|certainly|here(?:'s| is)|of course)[^:\n]*:|^(?:output|answer|caption|sentence)\s*:",
    re.IGNORECASE,
)
QUOTES = "\"'“”‘’`* "


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Rewriting task: its prompt and the verification of a reply.

    Attributes:
        kind: name of the change.
        keeps: whether the meaning stays: a hard positive.
        prompt: prompt template; `{caption}` stands for the caption.
        check: makes a verified rewrite from caption and reply, or raises `DoubtError`.
        takes: whether the task applies to a caption.
    """

    kind: str
    keeps: bool
    prompt: str
    check: Callable[[str, str], Rewrite]
    takes: Callable[[str], bool]

    def fill_prompt(self, caption: str, doubts: tuple[str, ...] = ()) -> str:
        """Prompt for a caption, with the reasons why earlier replies were rejected."""
        text = self.prompt.format(caption=caption.strip())
        for doubt in doubts:
            text += f"\n(An earlier answer was not accepted: {doubt}.)"
        return text


def clean_reply(reply: str) -> str:
    """First line of a reply that has words, without opening phrase and quotes."""
    for line in reply.strip().splitlines():
        text = REPLY_OPENING.sub("", line.strip(QUOTES)).strip(QUOTES)
        if any(sign.isalnum() for sign in text):
            return text
    return ""


def _has_and(caption: str) -> bool:
    words = caption.lower().split()
    return "and" in words and len(words) < MAX_SWAP_WORDS


def _has_several_words(caption: str) -> bool:
    return len(caption.split()) > 3


SYNONYM_PROMPT = (
    "Replace one word in this sentence with a synonym, without changing the meaning of the "
    "sentence. Only output the changed sentence. {caption}"
)
SWAP_PROMPT = (
    'Swap the words around the word "and" in a sentence without changing the meaning. Only respond '
    "with the changed sentence. Input: three giraffes and two antelope Output: two antelopes and "
    "three giraffes Input: a blue and white stained glass clock shows the time Output: a white and "
    "blue stained glass clock shows the time Input: a mixture of rice and broccoli are put "
    "together Output: a mixture of broccoli and rice are put together Input: a bathroom with a "
    "sink, toilet and shower Output: a bathroom with a sink, shower and toilet Input: there is "
    "a man wearing glasses and holding a wine bottle Output: there is a man "
    "holding a wine bottle and wearing glasses Input: {caption} Output:"
)
CONTRAST_PROMPT = (
    "Replace one word in this image caption with another word of the same sort, so that the "
    "caption is fluent and likely but no longer true of the same image. Only output the changed "
    "caption. {caption}"
)
EXCHANGE_PROMPT = (
    "Let two words of this image caption, such as two nouns or two adjectives, change places, so "
    "that the caption describes another image. Use exactly the same words. Only output the changed "
    "caption. {caption}"
)


def _make_task(kind: str, prompt: str, *, keeps: bool, order: bool) -> RewriteTask:
    verify = verify_reordering if order else verify_one_word
    takes = _has_and if order and keeps else _has_several_words
    return RewriteTask(
        kind, keeps, prompt, lambda old, new: verify(old, new, kind, keeps=keeps), takes
    )


TASKS: dict[str, RewriteTask] = {
    task.kind: task
    for task in (
        _make_task("rewrite-synonym", SYNONYM_PROMPT, keeps=True, order=False),
        _make_task("rewrite-swap", SWAP_PROMPT, keeps=True, order=True),
        _make_task("rewrite-contrast", CONTRAST_PROMPT, keeps=False, order=False),
        _make_task("rewrite-exchange", EXCHANGE_PROMPT, keeps=False, order=True),
    )
}


class ReplyCache:
    """Append-only cache of a model's replies; in memory only where there is no folder.

    The file has one line per reply and only grows. A truncated line is skipped.
    """

    def __init__(self, folder: Path | None, fingerprint: str):
        """Open the replies of one model.

        Raises:
            InputError: the file is there and cannot be read.
        """
        self._model = fingerprint
        name = hashlib.blake2b(fingerprint.encode(), digest_size=12).hexdigest()
        self._file = None if folder is None else folder / "rewrites" / f"{name}.jsonl"
        self._known: dict[str, str] = {}
        self._whole = True
        if self._file is not None:
            self._read(self._file)

    def get(self, prompt: str) -> str | None:
        """Cached reply to a prompt, or None."""
        return self._known.get(self._key(prompt))

    def add(self, replies: Mapping[str, str]) -> None:
        """Store replies by their prompts.

        Raises:
            InputError: they cannot be written.
        """
        lines = []
        for prompt, reply in replies.items():
            key = self._key(prompt)
            self._known[key] = reply
            lines.append(json.dumps({"key": key, "reply": reply}) + "\n")
        if self._file is None or not lines:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(("" if self._whole else "\n") + "".join(lines))
                sync_file(stream)
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(f"cannot be written ({why}).", file=self._file) from None
        self._whole = True

    def _read(self, file: Path) -> None:
        try:
            text = file.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror}).", file=file) from None
        self._whole = text.endswith("\n") or not text
        for line in text.splitlines():
            try:
                value = json.loads(line)
                self._known[str(value["key"])] = str(value["reply"])
            except (ValueError, KeyError, TypeError):
                continue

    def _key(self, prompt: str) -> str:
        return hashlib.blake2b(f"{self._model}\n{prompt}".encode(), digest_size=16).hexdigest()


ATTEMPTS = 3


@dataclass(slots=True)
class _PendingRewrite:
    """Pending rewrite: a caption, its task, and why earlier replies were rejected."""

    caption: str
    task: RewriteTask
    doubts: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        return self.task.fill_prompt(self.caption, self.doubts)


class Rewriter:
    """Rewrites captions with a language model, verifies replies, and retries with the reason.

    Attributes:
        name: the model's name.
        counts: numbers of prompts sent and found in the cache, and of replies accepted, refused and
            given up.
    """

    def __init__(self, model: Chat, cache: Path | None = None, attempts: int = ATTEMPTS):
        """Rewrite with a model; `cache` is the folder of stored replies."""
        self.name = model.name
        self.counts: Counter[str] = Counter()
        self._model = model
        self._attempts = attempts
        self._replies = ReplyCache(cache, model.fingerprint)

    def rewrites(self, captions: Sequence[str], kinds: Sequence[str]) -> list[list[Rewrite]]:
        """Accepted rewrites of each caption, in the order of the kinds.

        Raises:
            EndpointError: the endpoint cannot go on; its replies so far are stored.
        """
        tasks = [TASKS[kind] for kind in kinds if kind in TASKS]
        open_ = {
            (caption, task.kind): _PendingRewrite(caption, task)
            for caption in captions for task in tasks if task.takes(caption)
        }  # fmt: skip
        accepted: dict[tuple[str, str], Rewrite] = {}
        for attempt in range(self._attempts):
            if not open_:
                break
            self._query([question.prompt for question in open_.values()])
            for key, question in list(open_.items()):
                reply = clean_reply(self._replies.get(question.prompt) or "")
                try:
                    accepted[key] = question.task.check(question.caption, reply)
                except DoubtError as doubt:
                    self.counts["refused"] += 1
                    question.doubts = (*question.doubts, f"{doubt}; it was {reply!r}")
                    if attempt + 1 == self._attempts:
                        self.counts["given up"] += 1
                else:
                    self.counts["accepted"] += 1
                    del open_[key]
        return [
            [accepted[caption, task.kind] for task in tasks if (caption, task.kind) in accepted]
            for caption in captions
        ]

    def _query(self, prompts: Sequence[str]) -> None:
        """Query the model for uncached prompts in batches, and cache each batch."""
        missing = list(dict.fromkeys(one for one in prompts if self._replies.get(one) is None))
        self.counts["from the cache"] += len(set(prompts)) - len(missing)
        size = max(1, self._model.batch_size)
        for start in range(0, len(missing), size):
            batch = missing[start : start + size]
            try:
                replies = self._model.reply([Prompt((), prompt) for prompt in batch])
            except BaseException as error:
                arrived = [batch[k] for k in arrived_positions(error)]
                kept = [self._model.reply([Prompt((), prompt)])[0].text for prompt in arrived]
                self._replies.add(dict(zip(arrived, kept, strict=True)))
                raise
            self.counts["asked"] += len(batch)
            self._replies.add(
                {prompt: reply.text for prompt, reply in zip(batch, replies, strict=True)}
            )


def load_rewriter(name: str, cache: Path | None = None, attempts: int = ATTEMPTS) -> Rewriter:
    """Load a rewriter by model name, such as `openai:MODEL,url=http://host:port/v1`.

    Raises:
        InputError: the model does not chat.
    """
    model = load_model(name)
    if not isinstance(model, Chat):
        model_name = option("rewriter", "openai:MODEL,url=…")
        raise InputError(f"{name} does not answer in words: pass {model_name}.")
    return Rewriter(model, cache, attempts)
