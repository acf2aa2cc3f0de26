from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from contrapose.build.video.filters import (
    MOTION_WORDS,
    FrameFilters,
    count_faces,
    perceptual_hash,
    sharpness,
)
from contrapose.errors import InputError, MissingExtraError


def draw_face(size: int = 128) -> Image.Image:
    """Draw a face that is plain enough for a Haar cascade."""
    image = Image.new("L", (2 * size, 2 * size), 90)
    pen, scale = ImageDraw.Draw(image), size / 128

    def ellipse(box: tuple[int, int, int, int], fill: int) -> None:
        pen.ellipse([(40 + value) * scale for value in box], fill=fill)

    ellipse((28, 14, 100, 118), 190)
    for left in (38, 70):
        ellipse((left, 50, left + 20, 62), 70)
        ellipse((left + 6, 53, left + 14, 60), 20)
        brow = (left, 44, left + 20, 47)
        pen.rectangle([(40 + value) * scale for value in brow], fill=60)
    nose = ((64, 56), (56, 82), (72, 82))
    pen.polygon([((40 + x) * scale, (40 + y) * scale) for x, y in nose], fill=215)
    ellipse((50, 94, 78, 104), 80)
    return image.filter(ImageFilter.GaussianBlur(1.5 * scale)).convert("RGB")


def blocks(seed: int, size: int = 96) -> Image.Image:
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((size, size), Image.Resampling.NEAREST)


def clouds(seed: int) -> Image.Image:
    random = np.random.default_rng(seed)
    small = random.integers(20, 230, (5, 5, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((96, 96), Image.Resampling.BICUBIC)


@pytest.mark.parametrize(
    ("caption", "motion"),
    [
        ("Man looks up.", True),
        ("shift the hand downwards", True),
        ("walking Toward the stage", True),
        ("a cup on a table", False),
        ("an upset man with downy hair", False),
        ("stand-up comedian", True),
    ],
)
def test_motion_words(caption: str, motion: bool) -> None:
    assert FrameFilters(motion_words=MOTION_WORDS).has_motion(caption) is motion
    assert not FrameFilters().has_motion(caption)


def test_other_motion_words() -> None:
    filters = FrameFilters(motion_words=("a+b",))
    assert filters.has_motion("the a+b sign")
    assert not filters.has_motion("the aab sign")


def test_faces() -> None:
    for size in (64, 128, 300):
        assert count_faces(draw_face(size)) == 1, size
    assert count_faces(blocks(0)) == 0
    filters = FrameFilters(faces=True)
    assert filters.check(draw_face()) == "faces"
    assert filters.check(blocks(0)) is None


def test_faces_in_threads() -> None:
    images = [draw_face(100 + i) if i % 2 else blocks(i) for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count_faces, images)) == [i % 2 for i in range(12)]


def test_faces_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtraError, match=r"\[video\]"):
        count_faces(blocks(0))


def test_sharpness_is_opencvs_variance_of_the_laplacian() -> None:
    cv2 = pytest.importorskip("cv2")
    image = blocks(3, 120)
    gray = np.asarray(image.convert("L"))
    expected = cv2.Laplacian(gray, cv2.CV_64F)[1:-1, 1:-1].var()
    assert sharpness(image) == pytest.approx(expected)


def test_blur() -> None:
    filters = FrameFilters(blur=20.0)
    assert filters.check(blocks(0)) is None
    assert filters.check(blocks(0).filter(ImageFilter.GaussianBlur(12))) == "blur"
    assert filters.check(Image.new("RGB", (64, 64), "red")) == "blur"
    assert FrameFilters(blur=0).check(Image.new("RGB", (64, 64), "red")) is None
    assert sharpness(Image.new("RGB", (2, 2))) == 0.0


def test_hash_is_a_cosine_transform() -> None:
    scipy_fft = pytest.importorskip("scipy.fft")
    image = blocks(5, 32)
    low = scipy_fft.dctn(np.asarray(image.convert("L"), dtype=float))[:8, :8]
    # SciPy doubles each transform; the sign against the median is the same
    bits = (low > np.median(low.ravel()[1:])).ravel()
    assert perceptual_hash(image) == int("".join("1" if bit else "0" for bit in bits), 2)


def test_hash_ignores_compression_size_and_brightness() -> None:
    """A frequency near the median may change sides: few do, in nearly all images."""
    alike, others = [], []
    for seed in range(100):
        image = clouds(seed)
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=75)
        same = [
            Image.open(stream),
            image.resize((192, 144), Image.Resampling.BICUBIC),
            image.point(lambda value: value * 0.8 + 10),
        ]
        value = perceptual_hash(image)
        assert 0 <= value < 1 << 64
        alike += [(value ^ perceptual_hash(other)).bit_count() for other in same]
        others.append((value ^ perceptual_hash(clouds(seed + 1))).bit_count())
    assert np.quantile(alike, 0.95) <= 4
    assert max(alike) < min(others)


def test_duplicates() -> None:
    assert FrameFilters(duplicates=2).are_duplicates(0b111, 0b100)
    assert not FrameFilters(duplicates=2).are_duplicates(0b111, 0)
    assert not FrameFilters(duplicates=-1).are_duplicates(5, 5)


@pytest.mark.parametrize("wrong", [{"blur": -1.0}, {"blur": float("nan")}, {"duplicates": 65}])
def test_wrong_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        FrameFilters(**wrong)  # type: ignore[arg-type]
