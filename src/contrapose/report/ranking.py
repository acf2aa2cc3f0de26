"""Tables and sentences of a ranking: tiers, pairs, and which differences are noise."""

from __future__ import annotations

from contrapose.report.tables import (
    Mark,
    Table,
    format_interval,
    format_p_value,
    format_value,
    metric_words,
)
from contrapose.results.compare import TOO_FEW
from contrapose.results.rankings import BenchmarkRanking, RankedPair, Ranking

NAMED_PAIRS = 6
"""Pairs that a sentence names."""


def ranking_tables(ranking: Ranking) -> list[Table | str]:
    """Output of `contrapose rank`: tiers of every benchmark, sentences, then notes."""
    parts: list[Table | str] = []
    for one in ranking.rankings:
        parts += [models_table(one), *describe_ranking(one)]
    return [*parts, describe_correction(ranking), *(f"Note: {note}." for note in ranking.notes)]


def describe_correction(ranking: Ranking) -> str:
    """Sentence on the level of the tests and their correction."""
    tests = "1 test" if ranking.tests == 1 else f"all {ranking.tests:,} tests"
    return (
        f"Paired tests at the {ranking.level:g} level, after Holm's correction over {tests}; "
        "the JSON output lists every pair."
    )


def models_table(one: BenchmarkRanking) -> Table:
    """Table of the models, best first, with tiers and the models that each cannot be told from."""
    letters = group_letters(one)
    rows = tuple(
        (
            str(model.rank),
            model.name,
            str(model.tier),
            letters[model.name],
            format_value(model.value, share=one.share),
            format_interval(model.ci95, share=one.share),
            str(model.like) if model.like else "–",
        )
        for model in one.models
    )
    unit = "% with 95 % interval" if one.share else "with 95 % interval"
    lower = ", lower is better" if one.better == "lower" else ""
    title = f"{one.benchmark} · {metric_words(one.metric)}{lower} · {unit} · n = {one.n:,}"
    header = ("rank", "<model", "tier", "<groups", "value", "95 % interval", "not told from")
    marks: dict[tuple[int, int], Mark] = {
        (i, 4): "leader" for i, model in enumerate(one.models) if model.name in _leaders(one)
    }
    drop = ("not told from", "rank", "groups")
    return Table(title, header, rows, marks=marks, drop=drop)


def _leaders(one: BenchmarkRanking) -> set[str]:
    """The best model, and those whose difference from it is noise."""
    best = one.models[0].name
    return {best} | {pair.b for pair in one.pairs if pair.noise and pair.a == best}


def pairs_table(one: BenchmarkRanking) -> Table:
    """Table of all pairs: difference, interval, p-values and verdict."""
    rows = tuple(
        (
            pair.a,
            pair.b,
            format_value(pair.change.difference, share=one.share, signed=True),
            format_interval(pair.change.ci95, share=one.share, signed=True),
            *(
                "–" if pair.change.test == TOO_FEW else format_p_value(p)
                for p in (pair.change.p, pair.change.p_holm)
            ),
            pair.change.test,
            "noise" if pair.noise else pair.change.verdict,
        )
        for pair in one.pairs
    )
    header = ("<A", "<B", "B − A", "95 % interval", "p", "p (Holm)", "<test", "<B is")
    return Table("", header, rows, drop=("test", "p"))


def group_letters(one: BenchmarkRanking) -> dict[str, str]:
    """Letters of each model: two models share a letter exactly if they do not differ.

    A compact letter display (Piepho, An algorithm for a letter-based representation of all-pairwise
    comparisons, 2004); a dash for a model that differs from all others.
    """
    groups = [group for group in one.groups if len(group) > 1]
    letters: dict[str, list[str]] = {model.name: [] for model in one.models}
    for i, group in enumerate(groups):
        for name in group:
            letters[name].append(chr(ord("a") + i) if len(groups) <= 26 else f"{i + 1}")
    separator = "" if len(groups) <= 26 else " "
    return {name: separator.join(marks) or "–" for name, marks in letters.items()}


def describe_ranking(one: BenchmarkRanking) -> list[str]:
    """Sentences: who leads, which differences are noise, and where tests are not transitive."""
    best = one.models[0]
    noise = [pair for pair in one.pairs if pair.noise]
    rivals = [pair.b for pair in noise if pair.a == best.name]
    lead = f"{best.name} leads with {format_value(best.value, share=one.share)}"
    if not rivals:
        sentences = [f"{lead} and differs significantly from every other model."]
    else:
        sentences = [f"{lead}, but cannot be told from {_list_names(rivals)}."]
    if noise or len(one.pairs) > 1:
        sentences.append(_describe_noise(one, noise))
    return [*sentences, *_describe_intransitive(one)]


def _describe_noise(one: BenchmarkRanking, noise: list[RankedPair]) -> str:
    """Sentence on the differences that are noise, the largest first."""
    total = len(one.pairs)
    if not noise:
        return f"None of the {total:,} differences is noise."
    largest = sorted(noise, key=lambda pair: -abs(pair.change.difference))
    shown = "; ".join(
        f"{pair.a} and {pair.b} ({_size(one, pair)}, {_p(pair)})" for pair in largest[:NAMED_PAIRS]
    )
    more = f"; and {len(noise) - NAMED_PAIRS:,} smaller ones" if len(noise) > NAMED_PAIRS else ""
    verb = "is" if len(noise) == 1 else "are"
    return f"{len(noise):,} of {total:,} differences {verb} noise: {shown}{more}."


def _describe_intransitive(one: BenchmarkRanking) -> list[str]:
    """Sentence on a model that differs from neither of two models, which differ."""
    tier = {model.name: model.tier for model in one.models}
    across = [pair for pair in one.pairs if pair.noise and tier[pair.a] != tier[pair.b]]
    if not across:
        return []
    pair = across[0]
    return [
        f"Tiers overlap: {pair.a} (tier {tier[pair.a]}) and {pair.b} (tier {tier[pair.b]}) do not "
        "differ. Models that share a letter under groups do not differ."
    ]


def _size(one: BenchmarkRanking, pair: RankedPair) -> str:
    words = format_value(abs(pair.change.difference), share=one.share)
    return f"{words} points" if one.share else words


def _p(pair: RankedPair) -> str:
    if pair.change.test == TOO_FEW:
        return "too few examples for a test"
    p = format_p_value(pair.change.p_holm)
    return f"p {p}" if p.startswith("<") else f"p = {p}"


def _list_names(names: list[str]) -> str:
    if len(names) > NAMED_PAIRS:
        return f"{', '.join(names[:NAMED_PAIRS])} and {len(names) - NAMED_PAIRS} more"
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
