"""The limit of decoded pixels, the budget of threads, and conversion in strips."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Lock

import numpy as np
import pytest
from PIL import Image

from contrapose.data import ImageRef, open_image, pixels
from contrapose.data.pixels import LIMIT_VARIABLE, DecodeBudget, pixel_limit, require_size
from contrapose.errors import InputError


def test_a_small_file_of_many_pixels_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    Image.new("1", (10_000, 8_000)).save(path)
    assert path.stat().st_size < 20_000
    with pytest.raises(InputError, match=rf"80 megapixels.*64 .*{LIMIT_VARIABLE}") as refused:
        open_image(ImageRef("a", path))
    assert str(path) in str(refused.value)
    Image.new("RGB", (40, 30)).save(path)
    monkeypatch.setenv(LIMIT_VARIABLE, "0.001")
    with pytest.raises(InputError, match="too large to open"):
        open_image(ImageRef("a", path))
    np.save(tmp_path / "a.npy", np.zeros((40, 30, 3), np.uint8))
    with pytest.raises(InputError, match="too large to open"):
        open_image(ImageRef("a", tmp_path / "a.npy"))
    monkeypatch.setenv(LIMIT_VARIABLE, "0.0012")
    assert open_image(ImageRef("a", path)).size == (40, 30)


@pytest.mark.parametrize("text", ["many", "0", "-1", "nan"])
def test_a_limit_that_is_no_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, text)
    with pytest.raises(InputError, match="positive number"):
        pixel_limit()


def test_threads_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "0.0001")  # 100 pixels
    budget, lock, seen = DecodeBudget(), Lock(), list[int]()
    together = Barrier(2, timeout=60)

    def decode(size: int) -> None:
        with budget.take(size):
            with lock:
                seen.append(budget.taken)
            if size == 50:
                together.wait()  # two of half the limit run at once

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(decode, [60] * 10 + [50] * 8 + [100, 1000]))
    assert budget.taken == 0
    assert max(size for size in seen if size != 1000) <= 100
    assert seen.count(1000) == 1  # one image alone may always be decoded
    require_size(10, 10)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "F", "I"])
def test_strips_change_no_pixel(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    if mode in ("I;16", "F", "I"):
        kind = {"I;16": np.uint16, "F": np.float32, "I": np.int32}[mode]
        image = Image.fromarray((rng.random((17, 9)) * 60_000).astype(kind))
    else:
        full = Image.fromarray(rng.integers(0, 256, (17, 9, 4), np.uint8))
        image = full.quantize(16) if mode == "P" else full.convert(mode)
        if mode == "P":
            image.info["transparency"] = 3
    path = tmp_path / "a.tiff" if mode in ("F", "I") else tmp_path / "a.png"
    image.save(path)
    at_once = open_image(ImageRef("a", path))
    monkeypatch.setattr(pixels, "STRIP_PIXELS", 20)
    strips = open_image(ImageRef("a", path))
    assert strips.mode == "RGB"
    assert np.array_equal(np.asarray(strips), np.asarray(at_once))
