"""The Triton kernels of recurrence_triton.py: h_t = a_t * h_{t-1} + b_t and its adjoint, for one strip of channels.

A program processes `block_w` channels of one batch row over a chunk of time, in tiles of `block_t` steps: each tile is
scanned in parallel, and its last state is carried into the next tile, whose loads are already in flight.

All pointers are to real numbers. The real and imaginary parts of complex numbers are neighbours in memory (`width` and
`column` count both), and two planes, re and im, in registers; for real numbers the second plane is an unused copy of
the first.

The meaning of a and b (compile-time options):

    gates 0    a and b, as given; with `constant` a is one row, (width,)
    gates 1    minGRU: `a` points to the pre-activations of z and c;  a_t = 1 - z_t,  b_t = z_t g(c_t)
    gates 2    minLSTM: to those of f, i and c;  z_t = i_t / (f_t + i_t), then as for minGRU

g is that of mingru.py if `positive`, else the identity. With `resets`, h_{t-1} is zero where an episode begins, even if
it was infinite. With `summary`, a program writes the map of its whole chunk instead of its results: the decay over the
chunk, meaningless if an episode begins in it, and the chunk's last state when starting from zero.
"""

import triton
import triton.language as tl


@triton.jit
def _compose(a_first, b_first, a_then, b_then):
    return a_then * a_first, a_then * b_first + b_then


@triton.jit
def _compose_complex(a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im):
    first = c_re * a_re - c_im * a_im, c_re * a_im + c_im * a_re
    return first[0], first[1], c_re * b_re - c_im * b_im + d_re, c_re * b_im + c_im * b_re + d_im


@triton.jit
def _compose_cut(a_first, b_first, cut_first, a_then, b_then, cut_then):
    a, b = _compose(a_first, b_first, a_then, b_then)
    return a, tl.where(cut_then != 0, b_then, b), cut_first | cut_then


@triton.jit
def _compose_complex_cut(a_re, a_im, b_re, b_im, cut_first, c_re, c_im, d_re, d_im, cut_then):
    a_re, a_im, b_re, b_im = _compose_complex(a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im)
    cut = cut_then != 0
    return a_re, a_im, tl.where(cut, d_re, b_re), tl.where(cut, d_im, b_im), cut_first | cut_then


@triton.jit
def _scan(h_re, h_im, a_re, a_im, b_re, b_im, cut, is_complex: tl.constexpr, resets: tl.constexpr):
    """The cumulative decays along the tile's first axis, and the states, given h before the tile.

    Where `cut` is set (read only with `resets`), a step's map is h -> b. A decay of zero would not do: its product with
    an infinite h is NaN. A cumulative decay past a cut is meaningless.
    """
    if is_complex and resets:
        a_re, a_im, b_re, b_im, cut = tl.associative_scan((a_re, a_im, b_re, b_im, cut), 0, _compose_complex_cut)
    elif is_complex:
        a_re, a_im, b_re, b_im = tl.associative_scan((a_re, a_im, b_re, b_im), 0, _compose_complex)
    elif resets:
        a_re, b_re, cut = tl.associative_scan((a_re, b_re, cut), 0, _compose_cut)
        a_im, b_im = a_re, b_re
    else:
        a_re, b_re = tl.associative_scan((a_re, b_re), 0, _compose)
        a_im, b_im = a_re, b_re
    h_re, h_im = _multiply_add(a_re, a_im, h_re, h_im, b_re, b_im, is_complex)
    if resets:
        h_re, h_im = tl.where(cut != 0, b_re, h_re), tl.where(cut != 0, b_im, h_im)
    return a_re, a_im, h_re, h_im


@triton.jit
def _multiply_add(a_re, a_im, b_re, b_im, c_re, c_im, is_complex: tl.constexpr):
    """a b + c"""
    if is_complex:
        re, im = a_re * b_re - a_im * b_im + c_re, a_re * b_im + a_im * b_re + c_im
    else:
        re = a_re * b_re + c_re
        im = re
    return re, im


@triton.jit
def _load(pointer, mask, rows: tl.constexpr, block_w: tl.constexpr, is_complex: tl.constexpr, dtype: tl.constexpr):
    """A tile as two planes (rows, block_w), zero where masked."""
    tile = tl.load(pointer, mask=mask, other=0.0).to(dtype)
    if is_complex:
        re, im = tl.split(tl.reshape(tile, [rows, block_w, 2]))
    else:
        re, im = tile, tile
    return re, im


@triton.jit
def _store(pointer, re, im, mask, rows: tl.constexpr, block_w: tl.constexpr, is_complex: tl.constexpr):
    if is_complex:
        tl.store(pointer, tl.reshape(tl.join(re, im), [rows, 2 * block_w]), mask=mask)
    else:
        tl.store(pointer, re, mask=mask)


@triton.jit
def _last(plane, step, block_t: tl.constexpr):
    """The tile's last row, (1, block_w)."""
    return tl.sum(tl.where(step == block_t - 1, plane, 0.0), axis=0, keep_dims=True)


@triton.jit
def _sigmoid(x):
    """sigmoid(x) and sigmoid(-x), neither by subtraction from 1."""
    small = tl.exp(-tl.abs(x))
    high = 1.0 / (1.0 + small)
    low = small * high
    return tl.where(x >= 0, high, low), tl.where(x >= 0, low, high)


@triton.jit
def _load_gates(pointer, mask, width, gates: tl.constexpr, dtype: tl.constexpr):
    """Pre-activations of the gates: z (twice), or f and i."""
    first = tl.load(pointer, mask=mask, other=0.0).to(dtype)
    second = tl.load(pointer + width, mask=mask, other=0.0).to(dtype) if gates == 2 else first
    return first, second


@triton.jit
def _interpolation(first, second, gates: tl.constexpr):
    """z_t and 1 - z_t from the gates' pre-activations."""
    if gates == 2:
        # i / (f + i) from the difference of log i and log f, since f and i may both underflow:
        # log sigmoid(x) = min(x, 0) - log(1 + exp(-|x|)).
        difference = tl.minimum(second, 0.0) - tl.minimum(first, 0.0)
        small = tl.exp(-tl.abs(difference))
        insert = tl.where(difference >= 0, 1.0, small) * (1.0 + tl.exp(-tl.abs(first)))
        forget = tl.where(difference >= 0, small, 1.0) * (1.0 + tl.exp(-tl.abs(second)))
        z, keep = insert / (forget + insert), forget / (forget + insert)
    else:
        z, keep = _sigmoid(first)
    return z, keep


@triton.jit
def _candidate(x, positive: tl.constexpr):
    """g(x)"""
    if positive:
        y, _ = _sigmoid(x)
        y = tl.maximum(x + 0.5, y)
    else:
        y = x
    return y


@triton.jit
def _load_decay(
    a, mask, width, rows: tl.constexpr, block_w: tl.constexpr, gates: tl.constexpr, is_complex: tl.constexpr,
    dtype: tl.constexpr,
):  # fmt: skip
    """a_t as two planes, without regard to resets."""
    if gates > 0:
        first, second = _load_gates(a, mask, width, gates, dtype)
        _, re = _interpolation(first, second, gates)
        im = re
    else:
        re, im = _load(a, mask, rows, block_w, is_complex, dtype)
    return re, im


@triton.jit
def _strip(width, block_w: tl.constexpr, is_complex: tl.constexpr):
    """The program's chunk, counted over the batch, its columns in memory, (1, span), and which of them exist."""
    span: tl.constexpr = 2 * block_w if is_complex else block_w
    strips = tl.cdiv(width, span)
    program = tl.program_id(0)
    column = ((program % strips) * span + tl.arange(0, span))[None, :]
    return (program // strips).to(tl.int64), column, column < width


@triton.jit
def states_kernel(
    a, b, initial, reset, h, decay,
    time, width, length, chunks, a_row, a_time, b_row, b_time,
    constant: tl.constexpr, gates: tl.constexpr, positive: tl.constexpr, resets: tl.constexpr,
    is_complex: tl.constexpr, summary: tl.constexpr, dtype: tl.constexpr,
    block_t: tl.constexpr, block_w: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """All states, into h, (batch, time, width); or the chunks' maps, into decay and h, (batch, chunks, width).

    `initial`: the state before each chunk, (batch, chunks, width). `reset`: (batch, time). a and b have strides for a
    batch row and for a step.
    """
    place, column, inside = _strip(width, block_w, is_complex)
    row, chunk = place // chunks, place % chunks
    begin = chunk * length
    end = tl.minimum(begin + length, time)
    step = tl.arange(0, block_t)[:, None]
    if summary:
        h_re = tl.zeros([1, block_w], dtype)
        h_im = h_re
        all_re, all_im = h_re + 1.0, h_re
    else:
        h_re, h_im = _load(initial + place * width + column, inside, 1, block_w, is_complex, dtype)
        all_re, all_im = h_re, h_im
    if constant:
        fixed_re, fixed_im = _load(a + column, inside, 1, block_w, is_complex, dtype)
    for start in tl.range(begin, end, block_t, num_stages=stages):
        t = start + step
        here = t < end
        mask = here & inside
        if gates > 0:
            x = a + row * a_row + t * a_time + column
            first, second = _load_gates(x, mask, width, gates, dtype)
            z, a_re = _interpolation(first, second, gates)
            c = tl.load(x + gates * width, mask=mask, other=0.0).to(dtype)
            b_re = z * _candidate(c, positive)
            a_im, b_im = a_re, b_re
        else:
            b_re, b_im = _load(b + row * b_row + t * b_time + column, mask, block_t, block_w, is_complex, dtype)
            if constant:
                a_re, a_im = fixed_re, fixed_im
            else:
                a_re, a_im = _load(a + row * a_row + t * a_time + column, mask, block_t, block_w, is_complex, dtype)
        cut = tl.zeros([block_t, block_w], tl.int32)
        if resets:
            cut += tl.load(reset + row * time + t, mask=here, other=0)
        # Steps past the end are no-ops: h -> 1 h + 0.
        a_re, a_im = tl.where(here, a_re, 1.0), tl.where(here, a_im, 0.0)
        b_re, b_im = tl.where(here, b_re, 0.0), tl.where(here, b_im, 0.0)
        a_re, a_im, h_re, h_im = _scan(h_re, h_im, a_re, a_im, b_re, b_im, cut, is_complex, resets)
        if summary:
            a_re, a_im = _last(a_re, step, block_t), _last(a_im, step, block_t)
            all_re, all_im = _multiply_add(a_re, a_im, all_re, all_im, 0.0, 0.0, is_complex)
        else:
            _store(h + (row * time + t) * width + column, h_re, h_im, mask, block_t, block_w, is_complex)
        h_re, h_im = _last(h_re, step, block_t), _last(h_im, step, block_t)
    if summary:
        _store(h + place * width + column, h_re, h_im, inside, 1, block_w, is_complex)
        _store(decay + place * width + column, all_re, all_im, inside, 1, block_w, is_complex)


@triton.jit
def adjoint_kernel(
    a, h, initial, reset, grad, later, grad_a, grad_b, grad_initial, decay,
    time, width, length, chunks, a_row, a_time, grad_row, grad_time,
    constant: tl.constexpr, gates: tl.constexpr, positive: tl.constexpr, resets: tl.constexpr,
    is_complex: tl.constexpr, summary: tl.constexpr, dtype: tl.constexpr,
    block_t: tl.constexpr, block_w: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """All gradients from the gradient of h, by d_t = grad_t + conj(a_{t+1}) d_{t+1}, from the last step back.

    grad b_t = d_t and grad a_t = d_t conj(h_{t-1}), all (batch, time, width); with gates, the gradients of the
    pre-activations are written into grad_a, (batch, time, (gates + 1) width). For a constant decay, every program
    writes its own share, (batch, chunks, width). `initial` and grad_initial: (batch, width). `later`: d_{t+1} of each
    chunk's last step, (batch, chunks, width), chunks in the order of processing, the latest first. With `summary`, the
    chunks' maps are written into decay and grad_b in the same order.
    """
    place, column, inside = _strip(width, block_w, is_complex)
    row, chunk = place // chunks, chunks - 1 - place % chunks
    begin = chunk * length
    end = tl.minimum(begin + length, time)
    step = tl.arange(0, block_t)[:, None]
    if summary:
        d_re = tl.zeros([1, block_w], dtype)
        d_im = d_re
        all_re, all_im = d_re + 1.0, d_re
    else:
        d_re, d_im = _load(later + place * width + column, inside, 1, block_w, is_complex, dtype)
        all_re, all_im = d_re, d_im
        before_re, before_im = _load(initial + row * width + column, inside, 1, block_w, is_complex, dtype)
    if constant:
        fixed_re, fixed_im = _load(a + column, inside, 1, block_w, is_complex, dtype)
        sum_re = tl.zeros([1, block_w], dtype)
        sum_im = sum_re
    for start in tl.range(0, end - begin, block_t, num_stages=stages):
        t = end - 1 - start - step
        here = t >= begin
        mask = here & inside
        follows = here & (t + 1 < time)
        if constant:
            a_re, a_im = fixed_re, fixed_im
        else:
            a_re, a_im = _load_decay(
                a + row * a_row + (t + 1) * a_time + column, follows & inside, width, block_t, block_w, gates,
                is_complex, dtype,
            )  # fmt: skip
        cut = tl.zeros([block_t, block_w], tl.int32)
        if resets:
            cut += tl.load(reset + row * time + t + 1, mask=follows, other=0)
        a_re, a_im = tl.where(follows, a_re, 0.0), tl.where(follows, -a_im, 0.0)
        a_re, a_im = tl.where(here, a_re, 1.0), tl.where(here, a_im, 0.0)
        b_re, b_im = _load(
            grad + row * grad_row + t * grad_time + column, mask, block_t, block_w, is_complex, dtype
        )  # fmt: skip
        a_re, a_im, d_re, d_im = _scan(d_re, d_im, a_re, a_im, b_re, b_im, cut, is_complex, resets)
        if summary:
            a_re, a_im = _last(a_re, step, block_t), _last(a_im, step, block_t)
            all_re, all_im = _multiply_add(a_re, a_im, all_re, all_im, 0.0, 0.0, is_complex)
        else:
            index = (row * time + t) * width + column
            p_re, p_im = _load(h + index - width, mask & (t > 0), block_t, block_w, is_complex, dtype)
            p_re, p_im = tl.where(t > 0, p_re, before_re), tl.where(t > 0, p_im, before_im)
            if resets:
                keep = tl.load(reset + row * time + t, mask=here, other=0) == 0
                p_re, p_im = tl.where(keep, p_re, 0.0), tl.where(keep, p_im, 0.0)
            if gates > 0:
                x = row * a_row + t * a_time + column
                first, second = _load_gates(a + x, mask, width, gates, dtype)
                z, kept = _interpolation(first, second, gates)
                c = _candidate(tl.load(a + x + gates * width, mask=mask, other=0.0).to(dtype), positive)
                grad_c = d_re * z
                grad_z = kept * grad_c * (c - p_re)  # the gradient of z's pre-activation
                if positive:
                    grad_c = tl.where(c > 0.5, grad_c, grad_c * c * (1.0 - c))
                out = grad_a + (row * time + t) * width * (gates + 1) + column
                if gates == 2:
                    _, not_f = _sigmoid(first)
                    _, not_i = _sigmoid(second)
                    tl.store(out, -not_f * grad_z, mask=mask)
                    tl.store(out + width, not_i * grad_z, mask=mask)
                else:
                    tl.store(out, grad_z, mask=mask)
                tl.store(out + gates * width, grad_c, mask=mask)
            else:
                _store(grad_b + index, d_re, d_im, mask, block_t, block_w, is_complex)
                g_re, g_im = _multiply_add(d_re, d_im, p_re, -p_im, 0.0, 0.0, is_complex)
                if constant:
                    sum_re += tl.sum(tl.where(here, g_re, 0.0), axis=0, keep_dims=True)
                    sum_im += tl.sum(tl.where(here, g_im, 0.0), axis=0, keep_dims=True)
                else:
                    _store(grad_a + index, g_re, g_im, mask, block_t, block_w, is_complex)
        d_re, d_im = _last(d_re, step, block_t), _last(d_im, step, block_t)
    if summary:
        _store(grad_b + place * width + column, d_re, d_im, inside, 1, block_w, is_complex)
        _store(decay + place * width + column, all_re, all_im, inside, 1, block_w, is_complex)
    else:
        first_of_all = column < tl.where(begin == 0, width, 0)
        if constant:
            _store(grad_a + place * width + column, sum_re, sum_im, inside, 1, block_w, is_complex)
            a_re, a_im = fixed_re, fixed_im
        else:
            a_re, a_im = _load_decay(
                a + row * a_row + column, first_of_all, width, 1, block_w, gates, is_complex, dtype
            )  # fmt: skip
        d_re, d_im = _multiply_add(a_re, -a_im, d_re, d_im, 0.0, 0.0, is_complex)
        if resets:
            keep = tl.load(reset + row * time) == 0
            d_re, d_im = tl.where(keep, d_re, 0.0), tl.where(keep, d_im, 0.0)
        _store(grad_initial + row * width + column, d_re, d_im, first_of_all, 1, block_w, is_complex)
