"""Hard positives REPLACE: one word or phrase for another that means the same."""

from __future__ import annotations

from collections.abc import Iterator

from contrapose.build.captions.change import Rewrite, difference, rewrite
from contrapose.build.captions.replacements import Place, Role, Style, places
from contrapose.build.captions.sentence import Sentence, parse


def replacements(
    sentence: Sentence,
    style: Style = "safe",
    *,
    articles: bool = True,
    role: Role | None = None,
) -> Iterator[Rewrite]:
    """All hard positives that the table gives of a caption, each with one replacement.

    Args:
        sentence: the caption.
        style: the table with its conditions, or as published.
        articles: let articles fit; the published captions have “a ivory boat”.
        role: relations or attributes alone.
    """
    for place in places(sentence, style):
        if role is None or place.entry.kind == role:
            yield _made(sentence, place, articles)


def replacement_beside(
    caption: str,
    negative: str,
    style: Style = "published",
    *,
    articles: bool = True,
    role: Role | None = None,
) -> Rewrite | None:
    """The hard positive that changes the words that a hard negative changes.

    Where the negative changes several words that the table knows, or none, the first is taken.

    Returns:
        None where the table knows no word of the caption.
    """
    sentence = parse(caption)
    spans = difference(caption, negative, "").changes
    known = [place for place in places(sentence, style) if role is None or place.entry.kind == role]
    for place in known:
        start, end = sentence.span(place.first, place.end)
        if any(start < span.end and end > span.start for span in spans):
            return _made(sentence, place, articles)
    return _made(sentence, known[0], articles) if known else None


def _made(sentence: Sentence, place: Place, articles: bool) -> Rewrite:
    start, end = sentence.span(place.first, place.end)
    kind = f"replace-{place.entry.kind}"
    return rewrite(sentence.caption, kind, [(start, end, place.to)], articles=articles)
