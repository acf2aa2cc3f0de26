"""Critical-difference diagrams and pages of rankings."""

from __future__ import annotations

import pytest

from contrapose.report.html.rankings import MOST_BARS, ranking_plot, render_ranking
from contrapose.report.ranking import describe_ranking, group_letters, ranking_tables
from contrapose.results.rankings import BenchmarkRanking, RankedModel, RankedPair, Ranking
from contrapose.results.schema import Difference
from tests.report.html.checks import Balanced, finite


def make_ranking(
    values: list[float], alike: set[tuple[int, int]], groups: list[tuple[int, ...]]
) -> BenchmarkRanking:
    names = [f"model {i} & co" for i in range(len(values))]
    pairs = [
        RankedPair(
            a=names[i],
            b=names[j],
            change=Difference(
                a=values[i], b=values[j], difference=values[j] - values[i], ci95=None, n=100,
                share=True, better="higher", test="mcnemar-midp", p=0.5, p_holm=0.5,
                verdict="no significant difference" if (i, j) in alike else "worse",
            ),
        )
        for i in range(len(values))
        for j in range(i + 1, len(values))
    ]  # fmt: skip
    models = [
        RankedModel(name=name, rank=i + 1, tier=i + 1, value=value, ci95=None, like=0)
        for i, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    return BenchmarkRanking(
        benchmark="shapes", metric="accuracy", better="higher", share=True, n=100,
        models=tuple(models), pairs=tuple(pairs),
        groups=tuple(tuple(names[i] for i in group) for group in groups),
    )  # fmt: skip


INTRANSITIVE = make_ranking([0.9, 0.8, 0.7], {(0, 1), (1, 2)}, [(0, 1), (1, 2)])


@pytest.mark.parametrize(
    "ranking",
    [
        INTRANSITIVE,
        make_ranking([0.5, 0.5], {(0, 1)}, [(0, 1)]),
        make_ranking([1.0, 0.0], set(), [(0,), (1,)]),
        make_ranking([1.0, 1.0, 1.0], set(), [(0, 1, 2)]),
        make_ranking([i / 40 for i in range(40, 0, -1)], set(), [(i, i + 1) for i in range(39)]),
    ],
)
def test_a_diagram_is_finite_and_balanced(ranking: BenchmarkRanking) -> None:
    markup = ranking_plot(ranking)
    page = Balanced(markup)
    assert finite(markup)
    bars = sum(attributes.get("class") == "tie" for _, attributes in page.tags)
    assert bars == min(sum(len(group) > 1 for group in ranking.groups), MOST_BARS)
    assert sum(text.startswith("model") for text in page.text) >= len(ranking.models)


def test_a_page_has_everything() -> None:
    ranking = Ranking(
        contrapose="0", level=0.05, tests=3, resamples=100, seed=0, rankings=(INTRANSITIVE,),
        notes=("a note",),
    )  # fmt: skip
    page = Balanced(render_ranking(ranking))
    page.require_self_contained()
    assert page.count("svg") == 1
    assert page.count("table") == 2
    words = " ".join(page.text)
    assert "2 of 3 differences are noise" in words
    assert "a note." in words
    assert any("a note" in part for part in ranking_tables(ranking) if isinstance(part, str))


def test_letters_and_sentences_of_tests_that_are_not_transitive() -> None:
    assert list(group_letters(INTRANSITIVE).values()) == ["a", "ab", "b"]
    sentences = describe_ranking(INTRANSITIVE)
    assert "cannot be told from model 1" in sentences[0]
    assert "Tiers overlap" in sentences[-1]
