"""Triton kernels of InfoNCE and EqSim on a matrix of cosines; equations in `eqsim`.

S is the (size, size) matrix of cosines in float32. `rows` is a buffer of six numbers a row i of S:
log-sum-exp of the row and of the column of logits; the row's term of InfoNCE; Σ_j d_ij²; and
Σ (e − d)², Σ (e + d)² over its close pairs, where d_ij = S_ij − S_ji and e_ij = S_ii − S_jj.
"""

from __future__ import annotations

import triton
import triton.language as tl

INF = tl.constexpr(float("inf"))


@triton.jit
def sums(
    s, same, scale, rows, peaks, size, blocks,
    R: tl.constexpr, C: tl.constexpr, SAME: tl.constexpr, V1: tl.constexpr, CLOSE: tl.constexpr,
):  # fmt: skip
    """Log-sum-exps and Σ d² of R rows and columns, and the maximum of each block of C entries."""
    i = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    here = i < size
    z = tl.load(scale)
    group = tl.load(same + i, mask=here, other=0) if SAME else i
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
        if V1:
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
            hidden = away & (group[:, None] == other[None, :])
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
def close_pairs(
    s, peaks, rows, near, apart, size, blocks,
    K: tl.constexpr, KP: tl.constexpr, C: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """The close pairs of one row and of its column, their d and e, and sums of both terms of v2.

    The K largest lie in the K blocks with the largest maxima; of equal values, the lowest column
    comes first.
    """
    i = tl.program_id(0).to(tl.int64)
    right = tl.load(s + i * size + i)
    text = 0.0
    image = 0.0
    slot = tl.arange(0, KP)
    block = tl.arange(0, BLOCKS)
    for side in tl.static_range(2):
        tops = tl.load(peaks + (side * size + i) * blocks + block, mask=block < blocks, other=-INF)
        chosen = tl.full((KP,), -1, tl.int64)
        for turn in tl.static_range(K):
            best = tl.argmax(tops, 0)
            block_or_none = tl.where(tl.max(tops, 0) > -INF, best, -1)
            chosen = tl.where(slot == turn, block_or_none, chosen)
            tops = tl.where(block == best, -INF, tops)
        j = chosen[:, None] * C + tl.arange(0, C)[None, :]
        valid = (chosen[:, None] >= 0) & (j < size) & (j != i)
        entry = i * size + j if side == 0 else j * size + i
        values = tl.reshape(tl.load(s + entry, mask=valid, other=-INF), (KP * C,))
        columns = tl.reshape(j, (KP * C,))
        close = tl.zeros((KP,), tl.int64)
        for turn in tl.static_range(K):
            # Of equal values the lowest column; the last one in place of none, if all are NaN.
            best = tl.min(tl.where(values == tl.max(values, 0), columns, size - 1), 0)
            close = tl.where(slot == turn, best, close)
            values = tl.where(columns == best, -INF, values)
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
def losses(
    rows, info_nce, eqsim, weights, size, share_v1, share_v2, margin_v1, margin_v2,
    N: tl.constexpr, V1: tl.constexpr, CLOSE: tl.constexpr,
):  # fmt: skip
    """Values of InfoNCE and EqSim, and weights of its three means: 0 within their margins."""
    nce = tl.zeros((N,), tl.float64)
    skew = tl.zeros((N,), tl.float64)
    text = tl.zeros((N,), tl.float64)
    image = tl.zeros((N,), tl.float64)
    for start in range(0, size, N):
        i = start + tl.arange(0, N)
        here = i < size
        nce += tl.load(rows + 2 * size + i, mask=here, other=0.0)
        if V1:
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
    tl.store(weights, tl.where(over_v1 > 0, share_v1, 0.0).to(tl.float32))
    tl.store(weights + 1, tl.where(over_text > 0, share_v2, 0.0).to(tl.float32))
    tl.store(weights + 2, tl.where(over_image > 0, share_v2, 0.0).to(tl.float32))


@triton.jit
def gradient(
    s, same, scale, rows, weights, by_nce, by_eq, out, parts, first, last, size,
    R: tl.constexpr, C: tl.constexpr, SAME: tl.constexpr, V1: tl.constexpr,
):  # fmt: skip
    """Gradient by a tile of S, without that of close pairs, and a part of that by the scale.

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
        group = tl.load(same + i, mask=i < last, other=0)
        other = tl.load(same + j, mask=j < size, other=0)
        p = tl.where(away & (group[:, None] == other[None, :]), 0.0, p)
    p = tl.where(away, p, p - 2) * (tl.load(by_nce) / (2 * size))
    part = tl.sum(tl.sum(tl.where(both, p * row, 0.0), 1), 0)
    tl.store(parts + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), part)
    p *= z
    if V1:
        column = tl.load(s + j[None, :] * size + i[:, None], mask=both, other=0.0)
        p += (row - column) * (4 * tl.load(weights) * tl.load(by_eq))
    tl.store(out + (i - first)[:, None] * size + j[None, :], p, mask=both)


@triton.jit
def close_gradients(
    near, apart, weights, by_eq, out, first, last, size, pairs,
    K2: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Add the gradients of close pairs to a tile: at (i, j), (j, i), (i, i) and (j, j)."""
    pair = tl.program_id(0) * N + tl.arange(0, N)
    here = pair < pairs
    i = (pair // K2).to(tl.int64)
    j = tl.load(near + pair, mask=here, other=0).to(tl.int64)
    d = tl.load(apart + pair, mask=here, other=0.0)
    e = tl.load(apart + pairs + pair, mask=here, other=0.0)
    weight = 2 * tl.load(by_eq)
    text = (e - d) * (weight * tl.load(weights + 1))
    image = (e + d) * (weight * tl.load(weights + 2))
    mine = here & (i >= first) & (i < last)
    yours = here & (j >= first) & (j < last)
    tl.atomic_add(out + (i - first) * size + j, image - text, mask=mine)
    tl.atomic_add(out + (j - first) * size + i, text - image, mask=yours)
    tl.atomic_add(out + (i - first) * size + i, image + text, mask=mine)
    tl.atomic_add(out + (j - first) * size + j, -image - text, mask=yours)
