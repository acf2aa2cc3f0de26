"""VALSE's numbers against its script's comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import acc, kept_officially, min_precision, p_c, p_f, pairwise

PAIRS = st.lists(
    st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])] * 2), min_size=1, max_size=30
)


@given(PAIRS)
def test_against_the_definitions(rows: list[tuple[float, float]]) -> None:
    scores = np.array(rows)
    assert pairwise(scores).values.tolist() == [float(c > f) for c, f in rows]
    assert pairwise(scores).ties.tolist() == [c == f for c, f in rows]
    assert p_c(scores).values.tolist() == [float(c > 0.5) for c, _ in rows]
    assert p_f(scores).values.tolist() == [float(f < 0.5) for _, f in rows]
    assert p_f(scores).ties.tolist() == [f == 0.5 for _, f in rows]
    assert acc(scores).values.tolist() == [((c > 0.5) + (f < 0.5)) / 2 for c, f in rows]
    lesser = min(np.mean([c > 0.5 for c, _ in rows]), np.mean([f < 0.5 for _, f in rows]))
    assert min_precision(scores).value() == pytest.approx(lesser)


@given(PAIRS)
def test_the_released_script(rows: list[tuple[float, float]]) -> None:
    """Items whose two foil logits are equal are dropped throughout; then `>=` for the foil."""
    count = found = fits = detected = 0
    for c, f in rows:
        if f == 0.5:
            continue
        count += 1
        fits += c > 0.5
        detected += f <= 0.5
        found += (c > 0.5) + (f <= 0.5)
    scores = np.array(rows)
    kept = scores[kept_officially(scores)]
    assert len(kept) == count
    if count:
        assert acc(kept, protocol="official").mean() == pytest.approx(found / count / 2)
        assert p_f(kept, protocol="official").mean() == pytest.approx(detected / count)
        assert p_c(kept).mean() == pytest.approx(fits / count)


def test_another_threshold() -> None:
    logits = np.array([[0.2, -0.1], [-0.3, 0.4]])
    assert p_c(logits, 0.0).values.tolist() == [1, 0]
    assert p_f(logits, 0.0).values.tolist() == [1, 0]


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(InputError, match="protocol"):
        p_f(np.zeros((1, 2)), protocol="loose")  # type: ignore[arg-type]
