"""Tags from a file of the user's own: example id → tag, or list of tags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from contrapose.data import TagValue
from contrapose.errors import InputError
from contrapose.files import read_json
from contrapose.scoring.answers import Answers


def with_tags(answers: Answers, path: Path, name: str) -> Answers:
    """Add a tag to the examples; an example with an empty list gets "No Tag".

    Raises:
        InputError: the file is not an object of ids, or not one id is of this benchmark.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError("must hold a JSON object: example id → tag or list of tags.", file=path)
    unknown = set(content) - set(answers.frame.ids)
    if len(unknown) == len(content):
        raise InputError("tags no example of this benchmark.", file=path)
    values = tuple(_value(content.get(name, ""), name, path) for name in answers.frame.ids)
    frame = replace(answers.frame, tags={**answers.frame.tags, name: values})
    return replace(answers, frame=frame)


def _value(value: object, example: str, path: Path) -> TagValue:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return tuple(value) if len(value) > 1 else value[0] if value else "No Tag"
    raise InputError(f"the tags of {example!r} must be text or a list of texts.", file=path)
