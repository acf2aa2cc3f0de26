"""Triton kernels of InfoNCE and EqSim on a whole matrix of cosines.

S is the matrix of cosines, size × size, in float32. `rows` is a buffer of six numbers a row i of S:
log-sum-exp of the row and of the column of logits; the row's term of InfoNCE; Σ_j d_ij²; and
Σ (e − d)², Σ (e + d)² over its close pairs, where d_ij = S_ij − S_ji and e_ij = S_ii − S_jj.
"""

from __future__ import annotations

import triton
import triton.language as tl

INF = tl.constexpr(float("inf"))


@triton.jit
def look(
    s, same, scale, rows, peaks, size, blocks,
    R: tl.constexpr, C: tl.constexpr, SAME: tl.constexpr, EVEN: tl.constexpr, CLOSE: tl.constexpr,
):  # fmt: skip
    """R rows and the columns of the same numbers: their sums, and the largest of each C entries."""
    i = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    here = i < size
    z = tl.load(scale)
    own = tl.load(same + i, mask=here, other=0) if SAME else i
    top_row = tl.full((R,), -INF, tl.float32)
    top_column = tl.full((R,), -INF, tl.float32)
    sum_row = tl.zeros((R,), tl.float32)
    sum_column = tl.zeros((R,), tl.float32)
    skew = tl.zeros((R,), tl.float32)
    for block in range(blocks):
        j = (block * C + tl.arange(0, C)).to(tl.int64)
        both = here[:, None] & (j < size)[None, :]
        row = tl.load(s + i[:, None] * size + j[None, :], mask=both, other=0.0)
        column = tl.load(s + j[None, :] * size + i[:, None], mask=both, other=0.0)
        away = both & (i[:, None] != j[None, :])
        if EVEN:
            d = row - column
            skew += tl.sum(d * d, 1)
        if CLOSE:
            largest = tl.max(tl.where(away, row, -INF), 1)
            tl.store(peaks + i * blocks + block, largest, mask=here)
            largest = tl.max(tl.where(away, column, -INF), 1)
            tl.store(peaks + (size + i) * blocks + block, largest, mask=here)
        row = tl.where(both, row * z, -INF)
        column = tl.where(both, column * z, -INF)
        if SAME:
            other = tl.load(same + j, mask=j < size, other=0)
            hidden = away & (own[:, None] == other[None, :])
            row = tl.where(hidden, -INF, row)
            column = tl.where(hidden, -INF, column)
        top = tl.maximum(top_row, tl.max(row, 1))
        base = tl.where(top == -INF, 0.0, top)  # all that was seen so far may be hidden
        sum_row = sum_row * tl.exp(top_row - base) + tl.sum(tl.exp(row - base[:, None]), 1)
        top_row = top
        top = tl.maximum(top_column, tl.max(column, 1))
        base = tl.where(top == -INF, 0.0, top)
        sum_column = sum_column * tl.exp(top_column - base)
        sum_column += tl.sum(tl.exp(column - base[:, None]), 1)
        top_column = top
    right = tl.load(s + i * size + i, mask=here, other=0.0) * z
    top_row += tl.log(tl.where(here, sum_row, 1.0))
    top_column += tl.log(tl.where(here, sum_column, 1.0))
    tl.store(rows + i, top_row, mask=here)
    tl.store(rows + size + i, top_column, mask=here)
    tl.store(rows + 2 * size + i, top_row + top_column - 2 * right, mask=here)
    tl.store(rows + 3 * size + i, skew, mask=here)


@triton.jit
def choose(
    s, peaks, rows, near, apart, size, blocks,
    K: tl.constexpr, KP: tl.constexpr, C: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """The close pairs of one row and of its column, their d and e, and the sums of both terms.

    The K largest lie in the K blocks with the largest maxima.
    """
    i = tl.program_id(0).to(tl.int64)
    right = tl.load(s + i * size + i)
    text = 0.0
    image = 0.0
    slot = tl.arange(0, KP)
    block = tl.arange(0, BLOCKS)
    entry = tl.arange(0, KP * C)
    for side in tl.static_range(2):
        tops = tl.load(peaks + (side * size + i) * blocks + block, mask=block < blocks, other=-INF)
        chosen = tl.full((KP,), -1, tl.int64)
        for turn in tl.static_range(K):
            best = tl.argmax(tops, 0)
            found = tl.where(tl.max(tops, 0) > -INF, best, -1)
            chosen = tl.where(slot == turn, found, chosen)
            tops = tl.where(block == best, -INF, tops)
        j = chosen[:, None] * C + tl.arange(0, C)[None, :]
        there = (chosen[:, None] >= 0) & (j < size) & (j != i)
        place = i * size + j if side == 0 else j * size + i
        values = tl.reshape(tl.load(s + place, mask=there, other=-INF), (KP * C,))
        places = tl.reshape(j, (KP * C,))
        close = tl.zeros((KP,), tl.int64)
        for turn in tl.static_range(K):
            best = tl.argmax(values, 0)
            close = tl.where(slot == turn, tl.sum(tl.where(entry == best, places, 0), 0), close)
            values = tl.where(entry == best, -INF, values)
        taken = slot < K
        d = tl.load(s + i * size + close, mask=taken, other=0.0)
        d -= tl.load(s + close * size + i, mask=taken, other=0.0)
        e = right - tl.load(s + close * size + close, mask=taken, other=0.0)
        text += tl.sum(tl.where(taken, (e - d) * (e - d), 0.0), 0)
        image += tl.sum(tl.where(taken, (e + d) * (e + d), 0.0), 0)
        at = i * (2 * K) + side * K + slot
        tl.store(near + at, close.to(tl.int32), mask=taken)
        tl.store(apart + at, d, mask=taken)
        tl.store(apart + size * (2 * K) + at, e, mask=taken)
    tl.store(rows + 4 * size + i, text)
    tl.store(rows + 5 * size + i, image)


@triton.jit
def finish(
    rows, info_nce, eqsim, found, size, share_v1, share_v2, margin_v1, margin_v2,
    N: tl.constexpr, EVEN: tl.constexpr, CLOSE: tl.constexpr,
):  # fmt: skip
    """The values of InfoNCE and EqSim, and weights of its three means: 0 within their margins."""
    nce = tl.zeros((N,), tl.float64)
    skew = tl.zeros((N,), tl.float64)
    text = tl.zeros((N,), tl.float64)
    image = tl.zeros((N,), tl.float64)
    for start in range(0, size, N):
        i = start + tl.arange(0, N)
        here = i < size
        nce += tl.load(rows + 2 * size + i, mask=here, other=0.0)
        if EVEN:
            skew += tl.load(rows + 3 * size + i, mask=here, other=0.0)
        if CLOSE:
            text += tl.load(rows + 4 * size + i, mask=here, other=0.0)
            image += tl.load(rows + 5 * size + i, mask=here, other=0.0)
    tl.store(info_nce, (tl.sum(nce, 0) / (2 * size)).to(tl.float32))
    over_v1 = tl.sum(skew, 0) * share_v1 - margin_v1
    over_text = tl.sum(text, 0) * share_v2 - margin_v2
    over_image = tl.sum(image, 0) * share_v2 - margin_v2
    loss = tl.maximum(over_v1, 0.0) + tl.maximum(over_text, 0.0) + tl.maximum(over_image, 0.0)
    tl.store(eqsim, loss.to(tl.float32))
    tl.store(found, tl.where(over_v1 > 0, share_v1, 0.0).to(tl.float32))
    tl.store(found + 1, tl.where(over_text > 0, share_v2, 0.0).to(tl.float32))
    tl.store(found + 2, tl.where(over_image > 0, share_v2, 0.0).to(tl.float32))


@triton.jit
def slope(
    s, same, scale, rows, found, by_nce, by_eq, out, parts, first, last, size,
    R: tl.constexpr, C: tl.constexpr, SAME: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """The derivative by a tile of S, without that of close pairs, and a part of that by the scale.

    Of InfoNCE: z/2B · (softmax of the row + softmax of the column − 2δ); of v1: 4 d / B(B − 1).
    """
    i = (first + tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    j = (tl.program_id(1) * C + tl.arange(0, C)).to(tl.int64)
    both = (i < last)[:, None] & (j < size)[None, :]
    row = tl.load(s + i[:, None] * size + j[None, :], mask=both, other=0.0)
    z = tl.load(scale)
    logs_row = tl.load(rows + i, mask=i < last, other=0.0)
    logs_column = tl.load(rows + size + j, mask=j < size, other=0.0)
    logits = row * z
    p = tl.exp(logits - logs_row[:, None]) + tl.exp(logits - logs_column[None, :])
    away = i[:, None] != j[None, :]
    if SAME:
        own = tl.load(same + i, mask=i < last, other=0)
        other = tl.load(same + j, mask=j < size, other=0)
        p = tl.where(away & (own[:, None] == other[None, :]), 0.0, p)
    p = tl.where(away, p, p - 2) * (tl.load(by_nce) / (2 * size))
    part = tl.sum(tl.sum(tl.where(both, p * row, 0.0), 1), 0)
    tl.store(parts + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), part)
    p *= z
    if EVEN:
        column = tl.load(s + j[None, :] * size + i[:, None], mask=both, other=0.0)
        p += (row - column) * (4 * tl.load(found) * tl.load(by_eq))
    tl.store(out + (i - first)[:, None] * size + j[None, :], p, mask=both)


@triton.jit
def scatter(
    near, apart, found, by_eq, out, first, last, size, pairs,
    K2: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Adds the derivatives of close pairs to a tile: at (i, j), (j, i), (i, i) and (j, j)."""
    pair = tl.program_id(0) * N + tl.arange(0, N)
    here = pair < pairs
    i = (pair // K2).to(tl.int64)
    j = tl.load(near + pair, mask=here, other=0).to(tl.int64)
    d = tl.load(apart + pair, mask=here, other=0.0)
    e = tl.load(apart + pairs + pair, mask=here, other=0.0)
    weight = 2 * tl.load(by_eq)
    text = (e - d) * (weight * tl.load(found + 1))
    image = (e + d) * (weight * tl.load(found + 2))
    mine = here & (i >= first) & (i < last)
    yours = here & (j >= first) & (j < last)
    tl.atomic_add(out + (i - first) * size + j, image - text, mask=mine)
    tl.atomic_add(out + (j - first) * size + i, text - image, mask=yours)
    tl.atomic_add(out + (i - first) * size + i, image + text, mask=mine)
    tl.atomic_add(out + (j - first) * size + j, -image - text, mask=yours)
