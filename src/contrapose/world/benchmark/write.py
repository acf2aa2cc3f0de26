"""Writing the benchmark to disk: pictures, annotations, and a manifest of what was done."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contrapose import __version__
from contrapose.data import ImageRef, did_you_mean, open_images
from contrapose.errors import InputError
from contrapose.files import new_folder, require_free
from contrapose.world.benchmark.draw import LEAST_PIXELS, LEAST_SEEN, LOOKING, Form, Tally
from contrapose.world.benchmark.formats import Layout, laid_out
from contrapose.world.benchmark.image import LOOK, SIZE, index_maps, scene_of
from contrapose.world.benchmark.parts import EXAMPLES, PARTS, data_of
from contrapose.world.benchmark.suite import require_positive

MANIFEST = "manifest.json"
SCENES = "scenes.jsonl"
_BATCH = 128


def build_scenes(
    out: Path,
    parts: Sequence[str] = tuple(PARTS),
    *,
    form: Form = "balanced",
    examples: int = EXAMPLES,
    seed: int = 0,
    size: int = SIZE,
    masks: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write parts of the benchmark, each into a folder of its own name, in a public format.

    Args:
        out: the folder; it appears whole or not at all.
        parts: which parts.
        form: balanced or skewed.
        examples: of each part.
        seed: of everything.
        size: of the pictures.
        masks: also write an index map for each picture: 0 is ground and sky, k the k-th thing.
        overwrite: let it take the place of a folder that is there.

    Returns:
        The manifest.

    Raises:
        InputError: an unknown part, no examples, or a folder that cannot be written.
    """
    for part in parts:
        if part not in PARTS:
            raise InputError(f"scenes has no part {part!r}: {did_you_mean(part, PARTS)}")
    require_positive(examples, size)
    require_free(out, overwrite=overwrite)
    manifest: dict[str, Any] = {
        "source": f"contrapose {__version__}, scenes, renderer {LOOK}",
        "parameters": {
            "world": form,
            "examples": examples,
            "seed": seed,
            "size": size,
            "masks": masks,
            "least_seen": LEAST_SEEN,
            "least_pixels": LEAST_PIXELS,
            "looked_at": LOOKING,
        },
        "parts": {},
    }
    with new_folder(out, overwrite=overwrite) as folder:
        files: dict[str, str] = {}
        for part in dict.fromkeys(parts):
            tally = Tally()
            data = data_of(part, form, examples, seed, size, tally)
            layout = laid_out(part, PARTS[part].family, data)
            written = _write(folder / part, layout, size, masks=masks)
            files |= {f"{part}/{name}": digest for name, digest in written}
            manifest["parts"][part] = {
                "read_with": layout.reader,
                "examples": examples,
                "images": len(layout.images),
                "filters": dict(tally),
            }
        manifest["sha256"] = dict(sorted(files.items()))
        write_file(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return manifest


def write_file(path: Path, content: bytes) -> None:
    """Write one file of a folder that is not in its place yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _write(folder: Path, layout: Layout, size: int, *, masks: bool) -> Iterator[tuple[str, str]]:
    """Write a part; gives the name and the digest of every file."""

    def put(name: str, content: bytes) -> tuple[str, str]:
        write_file(folder / name, content)
        return name, hashlib.sha256(content).hexdigest()

    for name, text in layout.texts.items():
        yield put(name, text.encode())
    scenes = (
        f'{{"image":{json.dumps(name)},"scene":{scene_of(ref).to_json()}}}\n'
        for name, ref in layout.images
    )
    yield put(SCENES, "".join(scenes).encode())
    for start in range(0, len(layout.images), _BATCH):
        some = layout.images[start : start + _BATCH]
        for (name, _), image in zip(some, open_images([ref for _, ref in some]), strict=True):
            yield put(name, _png(image))
        if masks:
            for name, content in _masks(some, size):
                yield put(name, content)


def _masks(some: Sequence[tuple[str, ImageRef]], size: int) -> Iterator[tuple[str, bytes]]:
    from PIL import Image

    maps = index_maps([scene_of(ref) for _, ref in some], size)
    for (name, _), index in zip(some, maps, strict=True):
        place = name.removeprefix("images/")
        yield f"masks/{place}", _png(Image.fromarray((index + 1).astype("uint8")))


def _png(image: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
