"""Critical-difference diagram and page of a ranking."""

from __future__ import annotations

import math

from contrapose.report.html.page import (
    element,
    escape,
    render_details,
    render_footer,
    render_list,
    render_page,
    render_section,
    render_table,
)
from contrapose.report.html.svg import (
    CHARACTER_WIDTH,
    Scale,
    color_class,
    figure,
    line,
    marker,
    polyline,
    text,
    ticks,
)
from contrapose.report.ranking import (
    describe_correction,
    describe_ranking,
    models_table,
    pairs_table,
)
from contrapose.report.tables import format_value, metric_words
from contrapose.results.rankings import BenchmarkRanking, RankedModel, Ranking

AXIS_WIDTH, AXIS_TOP, BAR_STEP, LABEL_STEP, LABEL_GAP = 380.0, 44.0, 11.0, 19.0, 24.0
LONGEST_LABEL = 44
MOST_BARS = 30
"""Bars that are drawn; the tables have all groups."""


def ranking_plot(one: BenchmarkRanking) -> str:
    """Critical-difference diagram as a figure.

    Every model stands at its value on the axis, with its name at the side. A bar joins models of
    which no two differ; a dot on the bar marks each of them, since a model between them may differ.
    """
    scale = 100 if one.share else 1
    values = {model.name: scale * model.value for model in one.models}
    labels = {model.name: _label(model, one) for model in one.models}
    ascending = sorted(one.models, key=lambda model: (model.value, -model.rank))
    left, right = ascending[: len(ascending) // 2], ascending[len(ascending) // 2 :][::-1]
    margins = [
        LABEL_GAP + CHARACTER_WIDTH * max((len(labels[model.name]) for model in side), default=0)
        for side in (left, right)
    ]
    axis = _axis(min(values.values()), max(values.values()), margins[0], one.share)
    width = margins[0] + AXIS_WIDTH + margins[1]
    bars = [group for group in one.groups if len(group) > 1][:MOST_BARS]
    top = AXIS_TOP + 14 + BAR_STEP * len(bars)
    body = [_draw_axis(axis, one)]
    for side, edge, anchor in ((left, 0.0, "start"), (right, width, "end")):
        for i, model in enumerate(side):
            x, y = axis(values[model.name]), top + 12 + LABEL_STEP * i
            label = labels[model.name]
            inner = CHARACTER_WIDTH * len(label) + 6
            end = edge + inner if anchor == "start" else edge - inner
            body.append(polyline([(x, AXIS_TOP), (x, y), (end, y)], "elbow"))
            body.append(text(edge, y + 4, label, anchor=anchor, class_="row"))
    for i, group in enumerate(bars):
        y = AXIS_TOP + 14 + BAR_STEP * i
        points = [axis(values[name]) for name in group]
        body.append(line(min(points) - 4, y, max(points) + 4, y, "tie"))
        body += [marker(x, y, 0, "ring", size=2.6) for x in points]
    for model in one.models:
        kind = f"dot {color_class(model.tier - 1)}"
        hint = f"{model.name}: {format_value(model.value, share=one.share)}, tier {model.tier}"
        body.append(marker(axis(values[model.name]), AXIS_TOP, model.tier - 1, kind, hint=hint))
    height = top + 12 + LABEL_STEP * max(len(left), len(right)) + 4
    note = (
        "A bar joins models of which no two differ significantly; rings on it mark them. Color and "
        "shape on the axis are the tier."
    )
    tiers = "; ".join(
        f"{model.name} {format_value(model.value, share=one.share)}, tier {model.tier}"
        for model in one.models
    )
    groups = "; ".join(", ".join(group) for group in bars) or "none"
    alternative = f"{tiers}. Groups that do not differ: {groups}"
    title = f"{one.benchmark}: {metric_words(one.metric)}"
    return figure(title, note, alternative, width, height, body)


def _label(model: RankedModel, one: BenchmarkRanking) -> str:
    name = model.name
    if len(name) > LONGEST_LABEL:
        half = (LONGEST_LABEL - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    return f"{name}  {format_value(model.value, share=one.share)}"


def _axis(low: float, high: float, start: float, share: bool) -> Scale:
    """Scale from a round number below all values to one above; of at least one unit."""
    middle, half = (low + high) / 2, max((high - low) / 2, 0.5 if share else 1e-3)
    at = ticks(middle - 1.5 * half, middle + 1.5 * half)
    step = at[1] - at[0]
    first, last = math.floor(low / step) * step, math.ceil(high / step) * step
    if share:
        first, last = max(first, 0.0), min(last, 100.0)
    return Scale(first, last if last > first else first + step, start, start + AXIS_WIDTH)


def _draw_axis(axis: Scale, one: BenchmarkRanking) -> str:
    parts = [line(axis.start, AXIS_TOP, axis.end, AXIS_TOP, "zero")]
    for value in ticks(axis.low, axis.high):
        x = axis(value)
        parts.append(line(x, AXIS_TOP - 5, x, AXIS_TOP, "zero"))
        parts.append(text(x, AXIS_TOP - 10, f"{value:g}", anchor="middle", class_="tick"))
    unit = " (%)" if one.share else ""
    better = ", lower is better" if one.better == "lower" else ""
    label = f"{metric_words(one.metric)}{unit}{better}"
    middle = (axis.start + axis.end) / 2
    return "".join([*parts, text(middle, AXIS_TOP - 29, label, anchor="middle", class_="axis")])


def render_ranking(ranking: Ranking) -> str:
    """Render the page of a ranking: for each benchmark diagram, sentences, tiers and all pairs."""
    sections = [
        render_section(
            one.benchmark,
            "",
            ranking_plot(one),
            render_list(describe_ranking(one)),
            render_table(models_table(one)),
            render_details("All pairs", render_table(pairs_table(one))),
        )
        for one in ranking.rankings
    ]
    count = len(ranking.rankings[0].models)
    benchmarks = ", ".join(dict.fromkeys(one.benchmark for one in ranking.rankings))
    lead = describe_correction(ranking).partition(";")[0]
    footer = render_footer(
        [f"{note}." for note in ranking.notes], resamples=ranking.resamples, seed=ranking.seed
    )
    words = element("p", escape(f"{lead}."))
    return render_page(
        f"{count} models on {benchmarks}", "", [words, *sections], footer, with_script=True
    )
