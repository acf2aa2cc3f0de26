"""The renderer: an analytic ray tracer in plain PyTorch, for many scenes at once.

    from contrapose.world.render import render
    rendered = render(scenes, size=96)        # .images, .index, .depth, .masks(), .boxes() …

A picture depends on its scene and the size alone: not on the other scenes of the call, the number
of threads or the device.
"""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.errors import InputError, MissingExtraError

try:
    import torch
    from torch import Tensor
except ImportError:
    raise MissingExtraError("torch", "torch", "Drawing scenes") from None

from contrapose.world.render.pack import Box, PackedScenes, Rendering, pack
from contrapose.world.render.shade import shade
from contrapose.world.render.trace import Chunk, Hits, find_shadows, first_hits, ray_directions
from contrapose.world.scene import Scene

__all__ = [
    "Box",
    "PackedScenes",
    "Rendering",
    "are_visible",
    "pack",
    "render",
    "render_packed",
    "visibility",
]

RAYS_ON_CPU = 16 * 96 * 96
"""How many rays are followed together on a CPU: few enough for its cache."""
RAYS_ON_GPU = 2048 * 96 * 96
"""How many on anything else: enough to keep it busy; they take about 3 GB."""


def render(
    scenes: Sequence[Scene],
    size: int = 96,
    device: str | torch.device = "cpu",
    *,
    samples: int = 2,
    chunk: int | None = None,
) -> Rendering:
    """Render scenes; see `render_packed`.

    Raises:
        InputError: a scene cannot be drawn, or the size is not positive.
    """
    return render_packed(pack(scenes), size, device, samples=samples, chunk=chunk)


def render_packed(
    packed: PackedScenes,
    size: int = 96,
    device: str | torch.device | None = None,
    *,
    samples: int = 2,
    chunk: int | None = None,
) -> Rendering:
    """Render packed scenes.

    Args:
        packed: the scenes.
        size: width and height in pixels.
        device: where to work and leave the result; None for where the scenes are.
        samples: rays per pixel in each direction, averaged for smooth edges; 1 is fastest.
        chunk: how many scenes to draw at once; None for what suits the device.

    Raises:
        InputError: size, samples or chunk is not positive.
    """
    if min(size, samples, 1 if chunk is None else chunk) < 1:
        raise InputError("size, samples and chunk must be at least 1.")
    packed = packed if device is None else packed.to(device)
    step = chunk or _chunk_size(packed.device, size * samples)
    starts = range(0, len(packed), step)
    parts = [_render_chunk(packed[start : start + step], size, samples) for start in starts]
    parts = parts or [_empty_rendering(packed, size)]
    return Rendering(
        torch.cat([part.images for part in parts]),
        torch.cat([part.index for part in parts]),
        torch.cat([part.depth for part in parts]),
        torch.cat([part.silhouettes for part in parts]),
    )


def visibility(packed: PackedScenes, size: int = 48) -> tuple[Tensor, Tensor]:
    """Visible fraction and pixel count of each thing, without shading.

    Returns:
        (N, K) the seen fraction of each thing's silhouette, and (N, K) the pixels seen at `size`.
    """
    step = _chunk_size(packed.device, size)
    nothing = _empty_rendering(packed, size)
    fractions, areas = [nothing.visible()], [nothing.silhouettes]
    for start in range(0, len(packed), step):
        part = packed[start : start + step]
        hits = first_hits(Chunk(part), size)
        most = part.shape.shape[1]
        seen = torch.stack([(hits.index == k).flatten(1).sum(1) for k in range(most)], 1)
        areas.append(seen)
        fractions.append(seen / hits.silhouettes.clamp(min=1))
    return torch.cat(fractions), torch.cat(areas)


def are_visible(packed: PackedScenes, *, fraction: float, pixels: int, size: int = 48) -> Tensor:
    """(N,) whether every thing of a scene shows this fraction of itself and this many pixels."""
    fractions, areas = visibility(packed, size)
    enough = (fractions >= fraction) & (areas >= pixels)
    return (enough | ~packed.valid.to(enough.device)).all(dim=1)


def index_maps(packed: PackedScenes, size: int = 96) -> Tensor:
    """(N, size, size) index of the thing visible in each pixel, −1 for none, without shading."""
    step = _chunk_size(packed.device, size)
    parts = [
        first_hits(Chunk(packed[start : start + step]), size).index
        for start in range(0, len(packed), step)
    ]
    return torch.cat([_empty_rendering(packed, size).index, *parts])


def _chunk_size(device: torch.device, width: int) -> int:
    rays = RAYS_ON_CPU if device.type == "cpu" else RAYS_ON_GPU
    return max(1, rays // (width * width))


def _empty_rendering(packed: PackedScenes, size: int) -> Rendering:
    """Rendering of zero scenes."""
    empty = torch.empty((0, size, size), device=packed.device)
    return Rendering(
        empty.to(torch.uint8)[..., None].expand(0, size, size, 3),
        empty.to(torch.int8),
        empty,
        torch.empty((0, packed.shape.shape[1]), dtype=torch.int64, device=packed.device),
    )


def _render_chunk(packed: PackedScenes, size: int, samples: int) -> Rendering:
    chunk = Chunk(packed)
    middles = first_hits(chunk, size)
    rays = ray_directions(chunk, size)
    length = ((rays[0] * rays[0] + rays[1] * rays[1]) + rays[2] * rays[2]).sqrt()
    picture = _shade_image(chunk, middles if samples == 1 else first_hits(chunk, size * samples))
    if samples > 1:
        total = picture[..., 0::samples, 0::samples]
        for down in range(samples):
            for across in range(samples):
                if down or across:
                    total = total + picture[..., down::samples, across::samples]
        picture = total * (1 / samples**2)
    images = (picture * 255 + 0.5).to(torch.uint8).permute(1, 2, 3, 0).contiguous()
    return Rendering(images, middles.index, middles.t * length, middles.silhouettes)


def _shade_image(chunk: Chunk, hits: Hits) -> Tensor:
    rays = ray_directions(chunk, int(hits.t.shape[-1]))
    return shade(chunk, hits, rays, find_shadows(chunk, hits, rays))
