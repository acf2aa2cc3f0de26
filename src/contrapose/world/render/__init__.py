"""The renderer: an analytic ray tracer in plain PyTorch, for many scenes at once.

    from contrapose.world.render import render
    rendered = render(scenes, size=96)        # .images, .index, .depth, .masks(), .boxes() …

An image depends on its scene and the size alone: not on the other scenes of the call, the number
of threads or the device. Light is computed in squared color values and the root is taken at the
end: close to how screens and eyes work, and exact on every device, which a power of 2.2 is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.errors import InputError, MissingExtraError

try:
    import torch
    from torch import Tensor
except ImportError:
    raise MissingExtraError("torch", "torch", "Drawing scenes") from None

from contrapose.world.render.pack import (
    MATERIAL_CODE,
    PATTERN_CODE,
    Box,
    PackedScenes,
    Rendering,
    pack,
)
from contrapose.world.render.shapes import Vector, surface_normal
from contrapose.world.render.trace import (
    Chunk,
    Hits,
    find_shadows,
    first_hits,
    ground_hits,
    ray_directions,
)
from contrapose.world.scene import (
    BAND,
    CHECK,
    CUBE_CHECK,
    CUBE_SIDE,
    HAZE_FROM,
    HAZE_GROWTH,
    PALE_SHARE,
    PILL_START,
    PILL_THICKNESS,
    SHAPES,
    Scene,
)

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
"""Rays per batch on a CPU: few enough for its cache."""
RAYS_ON_GPU = 2048 * 96 * 96
"""Rays per batch on other devices: enough to keep them busy; they take about 3 GB."""


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
        device: device of the computation and the result; None takes that of the scenes.
        samples: rays per pixel in each direction, averaged for smooth edges; 1 is fastest.
        chunk: scenes per batch; None takes what suits the device.

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
        (N, K) visible fraction of each thing's silhouette, and (N, K) its visible pixels at `size`.
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
    image = _shade_image(chunk, middles if samples == 1 else first_hits(chunk, size * samples))
    if samples > 1:
        total = image[..., 0::samples, 0::samples]
        for down in range(samples):
            for across in range(samples):
                if down or across:
                    total = total + image[..., down::samples, across::samples]
        image = total * (1 / samples**2)
    images = (image * 255 + 0.5).to(torch.uint8).permute(1, 2, 3, 0).contiguous()
    return Rendering(images, middles.index, middles.t * length, middles.silhouettes)


def _shade_image(chunk: Chunk, hits: Hits) -> Tensor:
    rays = ray_directions(chunk, int(hits.t.shape[-1]))
    return _shade(chunk, hits, rays, find_shadows(chunk, hits, rays))


UNDERSIDE = 0.55
"""Share of the ambient light that reaches a surface that faces down."""


def _shade(chunk: Chunk, hits: Hits, rays: Vector, dark: Tensor) -> Tensor:
    """(3, N, S, S) colors from 0 to 1."""
    image = _shade_surroundings(chunk, rays, dark)
    seen = (hits.index.reshape(-1) >= 0).nonzero().squeeze(1)
    if len(seen):
        colors = _shade_surfaces(chunk, hits, rays, dark, seen)
        for channel, color in zip(image.reshape(3, -1).unbind(0), colors, strict=True):
            channel[seen] = color
    return image.clamp(0, 1).sqrt()


def _shade_surroundings(chunk: Chunk, rays: Vector, dark: Tensor) -> Tensor:
    """Shade ground and sky, in squared colors."""
    view = chunk.view
    t = ground_hits(chunk, int(dark.shape[-1]))  # one number a row, as all that follows from it
    sky = t == torch.inf
    t = t.masked_fill(sky, 0)
    x, y = view["eye_x"] + t * rays[0], view["eye_y"] + t * rays[1]
    tile = _is_odd(torch.floor(x) + torch.floor(y))
    light = view["ambient"] + view["strength"] * view["lamp_z"]
    light = torch.where(dark, view["ambient"], light)
    light = torch.where(tile, light * (1 - view["tiles"]), light)
    haze = ((t - HAZE_FROM) * HAZE_GROWTH).clamp(0, 1).masked_fill(sky, 1)
    height = 1 - 0.35 * rays[2].clamp(0, 1)
    channels = []
    for name in "rgb":
        ground, above = view[f"ground_{name}"], view[f"sky_{name}"]
        near, far = ground * ground * (1 - haze), above * above * height * haze
        channels.append(light * near + far)
    return torch.stack(channels)


def _shade_surfaces(
    chunk: Chunk, hits: Hits, rays: Vector, dark: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Shade things at flat positions of the image, in squared colors."""
    _, most = chunk.counts
    scene = torch.div(seen, hits.t[0].numel(), rounding_mode="floor")
    pair = scene * most + hits.index.reshape(-1)[seen].long()
    thing = _gather_columns(chunk.thing, pair)
    view = _gather_columns(chunk.view, scene)
    shape = hits.t.shape
    d = tuple(ray.expand(shape).reshape(-1)[seen] for ray in rays)
    t = hits.t.reshape(-1)[seen]

    x = view["eye_x"] + t * d[0] - thing["x"]
    y = view["eye_y"] + t * d[1] - thing["y"]
    z = view["eye_z"] + t * d[2] - thing["foot"]
    inverse = thing["radius"].reciprocal()
    cos, sin = thing["cos"], thing["sin"]
    local = ((cos * x + sin * y) * inverse, (cos * y - sin * x) * inverse, z * inverse)
    nx, ny, nz = surface_normal(thing["shape"], local)
    nx, ny = cos * nx - sin * ny, sin * nx + cos * ny

    lamp = (view["lamp_x"], view["lamp_y"], view["lamp_z"])
    facing = ((nx * lamp[0] + ny * lamp[1]) + nz * lamp[2]).clamp(min=0)
    lit = view["strength"].masked_fill(dark.reshape(-1)[seen], 0)
    around = view["ambient"] * (UNDERSIDE + (1 - UNDERSIDE) * (0.5 + 0.5 * nz))

    length = ((d[0] * d[0] + d[1] * d[1]) + d[2] * d[2]).sqrt().reciprocal()
    e = (d[0] * length, d[1] * length, d[2] * length)
    half = (lamp[0] - e[0], lamp[1] - e[1], lamp[2] - e[2])
    half_length = ((half[0] * half[0] + half[1] * half[1]) + half[2] * half[2]).sqrt()
    glint = ((half[0] * nx + half[1] * ny) + half[2] * nz) / half_length.clamp(min=1e-6)
    wide = _square_repeatedly(glint.clamp(0, 1) * (facing > 0), 4)
    tight = _square_repeatedly(wide, 2)

    metal = thing["material"] == MATERIAL_CODE["metal"]
    dull = around + lit * facing
    back = (e[0] * nx + e[1] * ny) + e[2] * nz
    up = e[2] - 2 * back * nz  # vertical part of the mirrored ray
    mirror = _sky_share(up)
    # Below the horizon a mirror sees the ground, and near its foot its own dark contact with it.
    floor = 0.25 + 0.75 * (local[2] * 0.55 / ((-up).clamp(min=0) + 0.3)).clamp(0, 1)
    edge = (
        _square_repeatedly((1 + back).clamp(0, 1), 2) * 0.5
    )  # a mirror at a grazing angle loses its color
    gleam = _highlight_streak(thing, local, (nx, ny, nz), half) * (facing > 0)
    shine = torch.where(metal, 1.1 * tight + 0.35 * gleam, 0.10 * wide) * lit
    alternate = _is_pale(thing, local)
    colors = []
    for name, short in (("red", "r"), ("green", "g"), ("blue", "b")):
        paint = thing[name]
        paint = torch.where(alternate, paint + PALE_SHARE * (1 - paint), paint)
        paint = paint * paint
        sky, ground = view[f"sky_{short}"], view[f"ground_{short}"]
        below = ground * ground * 0.8 * floor
        seen_in = below + mirror * (sky * sky * 1.3 - below)
        tint = paint + edge * (1 - paint)
        metallic = 0.45 * dull * paint + 0.75 * seen_in * tint
        colors.append(torch.where(metal, metallic, dull * paint) + shine)
    return colors[0], colors[1], colors[2]


def _gather_columns(columns: dict[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    table = torch.stack([column.reshape(-1) for column in columns.values()])
    return dict(zip(columns, table.index_select(1, rows).unbind(0), strict=True))


def _square_repeatedly(value: Tensor, doublings: int) -> Tensor:
    for _ in range(doublings):
        value = value * value
    return value


def _sky_share(up: Tensor) -> Tensor:
    """Share of sky in a mirrored ray: none below the horizon, a bright band just above it."""
    low = ((up + 0.08) * 5).clamp(0, 1)
    return low * (1 - 0.6 * ((up - 0.1) * 1.2).clamp(0, 1))


def _highlight_streak(thing: dict[str, Tensor], at: Vector, n: Vector, half: Vector) -> Tensor:
    """Highlight streak on polished sides that no round highlight reaches.

    It runs upright over cylinders and cones where they face between eye and lamp, and slantwise
    over flat sides.
    """
    shape = {name: thing["shape"] == code for code, name in enumerate(SHAPES)}
    level = (half[0] * half[0] + half[1] * half[1]).sqrt().clamp(min=1e-6)
    aside = (n[0] * half[1] - n[1] * half[0]).abs() / level
    before = (n[0] * half[0] + n[1] * half[1] > 0) & (n[2] < 0.5)
    slant = (at[0] + at[1] + (at[2] - CUBE_SIDE)).abs()
    upright = shape["cylinder"] | shape["cone"]
    off = torch.where(upright, aside * 1.5, slant)
    where = (upright & before) | shape["cube"] | shape["pyramid"]
    return _square_repeatedly((1 - off * 2.4).clamp(0, 1), 1) * where


def _is_pale(thing: dict[str, Tensor], at: Vector) -> Tensor:
    """Whether a point lies on a pale band or check."""
    x, y, z = at
    shape = {name: thing["shape"] == code for code, name in enumerate(SHAPES)}
    lying = shape["pill"]
    along = torch.where(lying, x + PILL_START, z).clamp(min=1e-3)
    one, other = torch.where(lying, z - PILL_THICKNESS, x), y
    striped = _is_odd(torch.floor(along * (1 / BAND)))
    eighths = (one > 0) ^ (other > 0) ^ (one.abs() > other.abs())
    checks = _is_odd(torch.floor(along * (1 / CHECK))) ^ eighths
    middle = (x.abs() < CUBE_CHECK) ^ (y.abs() < CUBE_CHECK) ^ ((z - CUBE_SIDE).abs() < CUBE_CHECK)
    checks = torch.where(shape["cube"], middle, checks)
    pattern = thing["pattern"]
    return ((pattern == PATTERN_CODE["striped"]) & striped) | (
        (pattern == PATTERN_CODE["checkered"]) & checks
    )


def _is_odd(value: Tensor) -> Tensor:
    return torch.floor(value * 0.5) * 2 != value
