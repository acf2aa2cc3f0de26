from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from studies.charts import MOST_MARKERS, Labels, Point, write_chart


def _draw(path: Path, count: int) -> str:
    points = [Point(float(i), 10.0 * (i % 3)) for i in range(count)]
    write_chart(
        path, "<title>", {"a & b": points}, x_label="x", y_label="y",
        x_names={0.0: "none", 1.0: "<one>"},
    )  # fmt: skip
    return path.read_text(encoding="utf-8")


def test_words_stand_on_the_axis_and_are_escaped(tmp_path: Path) -> None:
    drawing = _draw(tmp_path / "a.svg", 3)
    assert ">none<" in drawing
    assert "&lt;one&gt;" in drawing
    assert "<one>" not in drawing
    assert ">0.5<" not in drawing


def test_long_curves_have_no_markers(tmp_path: Path) -> None:
    few, many = (_draw(tmp_path / f"{n}.svg", n) for n in (MOST_MARKERS, MOST_MARKERS + 1))
    assert few.count('class="dot') == MOST_MARKERS
    assert 'class="dot' not in many


def test_labels_of_near_points_do_not_cover_each_other() -> None:
    labels = Labels([(200.0 + 4 * i, 150.0) for i in range(6)])
    written = [labels.write(200.0 + 4 * i, 150.0, "0.5") for i in range(6)]
    assert len({re.sub(r"<[^>]*>", "", it) for it in written}) == 1
    boxes = sorted(labels.boxes, key=lambda box: (box[1], box[0]))
    assert all(a[3] <= b[1] or a[2] <= b[0] for a, b in pairwise(boxes))
