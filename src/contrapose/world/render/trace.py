"""Ray casting: the first hit of each ray, and shadows.

Each (scene, thing) pair is first tested against a ball around it, for all rays at once; only the
rays that pass, a few in a hundred, go through the shape's own formula. Pairs are sorted by shape,
so that the rays of one shape lie side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from contrapose.world.render.pack import EMPTY, THING_COLUMNS, VIEW_COLUMNS, PackedScenes
from contrapose.world.render.shapes import BOUNDS, Vector, ray_entry
from contrapose.world.scene import SHAPES

MIN_SHADOW_DISTANCE = 1e-3
"""Least ray parameter at which a shadow ray can hit a thing."""
BOUND_MARGIN = 1.01
"""Factor by which bounding spheres are enlarged, against rounding."""


class Chunk:
    """Scenes rendered in one batch, with the columns that their rays need.

    Attributes:
        thing: (N, K, 1) columns of `PackedScenes.things` by name.
        view: (N, 1, 1) columns of `PackedScenes.views` by name.
        counts: N, K.
        order: flat positions of the pairs in (N, K), sorted by shape.
        pair_row: (N, K) position of each pair in that order; one past the last for an empty pair.
        ends: how many pairs come before the end of each shape.
    """

    def __init__(self, packed: PackedScenes) -> None:
        device = packed.device
        self.counts = (int(packed.shape.shape[0]), int(packed.shape.shape[1]))
        columns = packed.things.permute(2, 0, 1).contiguous().unsqueeze(-1)
        self.thing = dict(zip(THING_COLUMNS, columns.unbind(0), strict=True))
        view = packed.views.t().contiguous()[:, :, None, None]
        self.view = dict(zip(VIEW_COLUMNS, view.unbind(0), strict=True))

        flat = packed.shape.reshape(-1)
        order = torch.sort(flat, stable=True).indices[int((flat == EMPTY).sum()) :]
        row = torch.full_like(flat, len(order))
        row[order] = torch.arange(len(order))
        self.ends = torch.bincount(flat[order], minlength=len(SHAPES)).cumsum(0).tolist()
        self.order = order.to(device)
        self.pair_row = row.reshape(self.counts).to(device)
        bounds = torch.tensor([BOUNDS[shape] for shape in SHAPES] + [(0.0, 0.0)])
        middle, around = bounds[packed.shape].to(device).unbind(-1)
        radius = self.thing["radius"]
        self.middle = (
            self.thing["x"],
            self.thing["y"],
            self.thing["foot"] + middle.unsqueeze(-1) * radius,
        )
        self.around = around.unsqueeze(-1) * radius * BOUND_MARGIN
        self._pairs = self._own_coordinates()

    def _own_coordinates(self) -> Tensor:
        """(14, P) eye, ahead, right, up and lamp of each pair in the thing's own coordinates."""
        thing = {name: column[..., 0] for name, column in self.thing.items()}
        view = {name: column[..., 0] for name, column in self.view.items()}
        inverse = thing["radius"].reciprocal()
        cos, sin = thing["cos"] * inverse, thing["sin"] * inverse

        def rotate(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return cos * x + sin * y, cos * y - sin * x

        rows = [
            *rotate(view["eye_x"] - thing["x"], view["eye_y"] - thing["y"]),
            (view["eye_z"] - thing["foot"]) * inverse,
            *rotate(view["ahead_x"], view["ahead_y"]), view["ahead_z"] * inverse,
            *rotate(view["right_x"], view["right_y"]),
            *rotate(view["up_x"], view["up_y"]), view["up_z"] * inverse,
            *rotate(view["lamp_x"], view["lamp_y"]), view["lamp_z"] * inverse,
        ]  # fmt: skip
        return torch.stack(rows).flatten(1).index_select(1, self.order)

    def gather(self, pair: Tensor, rows: slice) -> tuple[Tensor, ...]:
        """Gather some of each ray's columns by its pair."""
        return self._pairs[rows].index_select(1, pair).unbind(0)

    def by_shape(self, tested: Tensor) -> tuple[Tensor, list[int]]:
        """Flat positions in (P, rays) of the rays that passed a test, and the end of each shape.

        Args:
            tested: (N, K, rays) whether they passed.
        """
        rays = tested.shape[-1]
        passed = tested.reshape(-1, rays).index_select(0, self.order).reshape(-1)
        at = passed.nonzero().squeeze(1)
        ends = torch.tensor(self.ends, device=at.device) * rays
        return at, torch.searchsorted(at, ends).tolist()


@dataclass(frozen=True, slots=True)
class Hits:
    """First hits of the rays of a square grid.

    Attributes:
        t: (N, S, S) parameter along the ray, whose step ahead is one; infinite for the sky.
        index: (N, S, S) int8 position of the thing; −1 for ground and sky.
        silhouettes: (N, K) how many rays meet each thing, seen or hidden.
    """

    t: Tensor
    index: Tensor
    silhouettes: Tensor


@lru_cache(maxsize=16)
def cell_centers(size: int, device: torch.device) -> Tensor:
    """Centers of `size` equal cells from −1 to 1."""
    cells = torch.arange(size, dtype=torch.float64)
    return ((2 * cells + 1) / size - 1).to(torch.float32).to(device)


def ray_directions(chunk: Chunk, size: int) -> Vector:
    """Ray directions, (N, S, S), or (N, S, 1) for z, which is constant along a row."""
    view, across = chunk.view, cell_centers(size, chunk.order.device)
    down = -across[:, None]
    x = (view["ahead_x"] + down * view["up_x"]) + across * view["right_x"]
    y = (view["ahead_y"] + down * view["up_y"]) + across * view["right_y"]
    return x, y, view["ahead_z"] + down * view["up_z"]


def ground_hits(chunk: Chunk, size: int) -> Tensor:
    """(N, S, 1) ray parameter at the ground; infinite above the horizon."""
    down = -cell_centers(size, chunk.order.device)[:, None]
    fall = -(chunk.view["ahead_z"] + down * chunk.view["up_z"])
    level = fall <= 0
    return (chunk.view["eye_z"] / fall.masked_fill(level, 1)).masked_fill(level, torch.inf)


def _hits_bounds(chunk: Chunk, size: int) -> Tensor:
    """(N, K, S·S) whether a ray passes through the bounding sphere of a thing.

    The direction is linear in column and row, and so is its product with the way to the ball.
    """
    view, across = chunk.view, cell_centers(size, chunk.order.device)
    x, y, z = (chunk.middle[i] - view[f"eye_{axis}"] for i, axis in enumerate("xyz"))
    least = ((x * x + y * y + z * z) - chunk.around * chunk.around).clamp(min=0).sqrt()
    ahead = view["ahead_x"] * x + view["ahead_y"] * y + view["ahead_z"] * z
    up = view["up_x"] * x + view["up_y"] * y + view["up_z"] * z
    right = view["right_x"] * x + view["right_y"] * y
    toward = (ahead - across * up).unsqueeze(3) + (across * right).unsqueeze(2)
    reach = view["right_x"] * view["right_x"] + view["right_y"] * view["right_y"]
    square = (across * across)[:, None] + across * across
    length = (1 + reach * square).sqrt().unsqueeze(1)
    return (toward >= length * least.unsqueeze(3)).flatten(2)


def _local_rays(chunk: Chunk, at: Tensor, size: int) -> tuple[Tensor, Tensor, Vector, Vector]:
    """Pair, pixel, and own-coordinate origin and direction of flat (P, S·S) rays."""
    across = cell_centers(size, at.device)
    pair = torch.div(at, size * size, rounding_mode="floor")
    pixel = at - pair * (size * size)
    row = torch.div(pixel, size, rounding_mode="floor")
    u, v = across[pixel - row * size], -across[row]
    ox, oy, oz, ax, ay, az, rx, ry, ux, uy, uz = chunk.gather(pair, slice(0, 11))
    return pair, pixel, (ox, oy, oz), ((ax + v * ux) + u * rx, (ay + v * uy) + u * ry, az + v * uz)


def _enter_shapes(origin: Vector, direction: Vector, ends: list[int]) -> Tensor:
    """Ray parameters at which rays sorted by shape enter their things."""
    entries, start = [], 0
    for shape, end in zip(SHAPES, ends, strict=True):
        if end > start:
            part = slice(start, end)
            o = (origin[0][part], origin[1][part], origin[2][part])
            d = (direction[0][part], direction[1][part], direction[2][part])
            entries.append(ray_entry(shape, o, d))
        start = end
    return torch.cat(entries) if entries else origin[0]


def first_hits(chunk: Chunk, size: int) -> Hits:
    """Cast one ray through the center of each cell of the image."""
    (scenes, most), rays = chunk.counts, size * size
    device = chunk.order.device
    near = torch.full((len(chunk.order) + 1, rays), torch.inf, device=device)
    at, ends = chunk.by_shape(_hits_bounds(chunk, size))
    if len(at):
        _, _, origin, direction = _local_rays(chunk, at, size)
        near.view(-1)[at] = _enter_shapes(origin, direction, ends)
    t = ground_hits(chunk, size).expand(scenes, size, size).reshape(scenes, rays)
    index = torch.full((scenes, rays), -1, dtype=torch.int8, device=device)
    silhouettes = []
    for thing in range(most):
        hit = near.index_select(0, chunk.pair_row[:, thing])
        nearer = hit < t
        t = torch.where(nearer, hit, t)
        index = index.masked_fill(nearer, thing)
        silhouettes.append((hit < torch.inf).sum(1))
    shape = (scenes, size, size)
    return Hits(t.reshape(shape), index.reshape(shape), torch.stack(silhouettes, 1))


def find_shadows(chunk: Chunk, hits: Hits, rays: Vector) -> Tensor:
    """(N, S, S) whether something stands between each visible point and the lamp.

    A thing's own unlit side is not counted: things are convex, so the normal tells it.
    """
    (scenes, most), size = chunk.counts, int(hits.t.shape[-1])
    view = chunk.view
    # Two axes across the lamp's light; along it, a ball's shadow is a disc in them.
    x, y, z = view["lamp_x"], view["lamp_y"], view["lamp_z"]
    flat = (x * x + y * y).sqrt().clamp(min=1e-6)
    side = (-y / flat, x / flat, torch.zeros_like(x))
    over = (side[1] * z * -1, side[0] * z, flat)
    gaps = []
    for axis in (side, over):
        step = (rays[0] * axis[0] + rays[1] * axis[1]) + rays[2] * axis[2]
        eye = (view["eye_x"] * axis[0] + view["eye_y"] * axis[1]) + view["eye_z"] * axis[2]
        point = (eye + hits.t * step).reshape(scenes, 1, size * size)
        middle = (chunk.middle[0] * axis[0] + chunk.middle[1] * axis[1]) + chunk.middle[2] * axis[2]
        gaps.append(point - middle)
    apart = gaps[0] * gaps[0] + gaps[1] * gaps[1]
    things = torch.arange(most, dtype=torch.int8, device=hits.index.device)[:, None]
    other = hits.index.reshape(scenes, 1, -1) != things
    at, ends = chunk.by_shape((apart <= chunk.around * chunk.around) & other)

    dark = torch.zeros(hits.t.numel(), dtype=torch.bool, device=hits.t.device)
    if len(at):
        pair, pixel, eye_, step_ = _local_rays(chunk, at, size)
        seen = torch.div(chunk.order, most, rounding_mode="floor")[pair] * (size * size) + pixel
        t = hits.t.reshape(-1)[seen]
        start = (eye_[0] + t * step_[0], eye_[1] + t * step_[1], eye_[2] + t * step_[2])
        lamp = chunk.gather(pair, slice(11, 14))
        enter = _enter_shapes(start, (lamp[0], lamp[1], lamp[2]), ends)
        dark[seen[(enter > MIN_SHADOW_DISTANCE) & (enter < torch.inf)]] = True
    return dark.reshape(hits.t.shape)
