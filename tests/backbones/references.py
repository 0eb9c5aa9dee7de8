"""The papers' equations as plain float64 loops over time: the references for every backbone.

A backbone's, a function of its name, takes the configuration, the module's parameters by name, x (batch, time, width),
the state before the first step and reset (batch, time) bool, and returns the output and the state after the last step.
Autograd through them gives the gradients. Nothing here may come from decision_rnn: shared code would share faults.
"""

import math

import torch


def affine(parameters, name, x):
    return x @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def before_step(h, reset, t):
    """h_{t-1}: zero in the rows that start an episode at t."""
    return torch.where(reset[:, t].view(-1, *[1] * (h.dim() - 1)), torch.zeros_like(h), h)


def same_episode(reset, s, t):
    """The rows in which no episode begins after step s up to step t."""
    return ~reset[:, max(s + 1, 0) : t + 1].any(1)


def linear_recurrence(a, b, initial, reset=None):
    """All states of h_t = a_t * h_{t-1} + b_t; a is (width,) or like b, and reset may be left out."""
    a, h, states = a.expand_as(b), initial, []
    for t in range(b.shape[1]):
        h = a[:, t] * (h if reset is None else before_step(h, reset, t)) + b[:, t]
        states.append(h)
    return torch.stack(states, dim=1)


def g(x):
    """minGRU, appendix B.2: the positive candidate."""
    return torch.where(x >= 0, x + 0.5, sigmoid(x))


def gate(config, z):
    """minGRU's gate, stretched and clipped if the configuration says so."""
    return torch.clamp(1.2 * z - 0.1, 0, 1) if config.gate == "stretched" else z


def mingru(config, parameters, x, state, reset):
    (h,), outputs = state, []
    for t in range(x.shape[1]):
        z, candidate = affine(parameters, "gates", x[:, t]).chunk(2, dim=-1)
        z, candidate = gate(config, sigmoid(z)), g(candidate)
        h = (1 - z) * before_step(h, reset, t) + z * candidate
        outputs.append(affine(parameters, "output", h) if "output.weight" in parameters else h)
    return torch.stack(outputs, dim=1), (h,)


def minlstm(config, parameters, x, state, reset):
    (h,), outputs = state, []
    for t in range(x.shape[1]):
        f, i, candidate = affine(parameters, "gates", x[:, t]).chunk(3, dim=-1)
        f, i, candidate = sigmoid(f), sigmoid(i), g(candidate)
        z = gate(config, i / (f + i))
        h = (1 - z) * before_step(h, reset, t) + z * candidate
        outputs.append(affine(parameters, "output", h) if "output.weight" in parameters else h)
    return torch.stack(outputs, dim=1), (h,)


def lru(config, parameters, x, state, reset):
    if config.parametrization == "stable":
        decay = torch.exp(-torch.exp(parameters["nu_log"]) + 1j * torch.exp(parameters["theta_log"]))
    elif config.parametrization == "exponential":
        decay = torch.exp(-parameters["nu"] + 1j * parameters["theta"])
    else:
        decay = parameters["real"] + 1j * parameters["imag"]
    gamma = torch.exp(parameters["gamma_log"]) if config.normalization else 1
    b = parameters["b"][:, 0] + 1j * parameters["b"][:, 1]
    c = parameters["c"][..., 0] + 1j * parameters["c"][..., 1]
    h, outputs = state[0] + 1j * state[1], []
    for t in range(x.shape[1]):
        h = decay * before_step(h, reset, t) + gamma * (x[:, t].to(b.dtype) @ b.T)
        outputs.append((h @ c.T).real + parameters["d"] * x[:, t])
    return torch.stack(outputs, dim=1), (h.real, h.imag)


def hgrn(config, parameters, x, state, reset):
    """Of a layer above others, `parameters["rises"]` are those of all layers from the second up to it."""
    width, bound = config.width, 0
    for rise in parameters.get("rises", []):
        bound = bound + (1 - bound) * sigmoid(rise)
    turn, h, outputs = torch.exp(1j * parameters["theta"]), state[0] + 1j * state[1], []
    for t in range(x.shape[1]):
        z = affine(parameters, "input", x[:, t])
        forget, candidate, gate = z.split((width, 2 * width, 2 * width), dim=-1)
        silu = candidate * sigmoid(candidate)
        c = silu[:, :width] + 1j * silu[:, width:]
        keep = bound + (1 - bound) * sigmoid(forget)
        h = keep * turn * before_step(h, reset, t) + (1 - keep) * c
        normed = layer_norm(parameters, "norm", torch.cat((h.real, h.imag), dim=-1))
        outputs.append(affine(parameters, "output", normed * gate * sigmoid(gate)))
    return torch.stack(outputs, dim=1), (h.real, h.imag)


def rwkv(config, parameters, x, state, reset):
    """With the sums themselves, without a stabiliser. The state's scale m is computed alongside and is constant to the
    gradient."""
    past, m, sums = state
    a, b = (part * torch.exp(m) for part in sums.chunk(2, dim=-1))
    m, w, u, outputs = m.detach(), torch.exp(parameters["decay_log"]), parameters["bonus"], []
    for t in range(x.shape[1]):
        past, a, b = (before_step(part, reset, t) for part in (past, a, b))
        m = torch.where(reset[:, t, None], -torch.inf, m)
        r, k, v = (
            (mu * x[:, t] + (1 - mu) * past) @ parameters[f"{name}.weight"].T
            for mu, name in zip(parameters["mix"], ("receptance", "key", "value"), strict=True)
        )
        wkv = (a + torch.exp(u + k) * v) / (b + torch.exp(u + k))
        a, b = torch.exp(-w) * a + torch.exp(k) * v, torch.exp(-w) * b + torch.exp(k)
        m, past = torch.maximum(m - w, k).detach(), x[:, t]
        outputs.append((sigmoid(r) * wkv) @ parameters["output.weight"].T)
    return torch.stack(outputs, dim=1), (past, m, torch.cat([a, b], dim=-1) / torch.exp(m).repeat(1, 2))


def scrn(config, parameters, x, state, reset):
    h, s = state
    a_p, r, b, c = (parameters[f"hidden.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    alpha, outputs = sigmoid(parameters["beta"]), []
    for t in range(x.shape[1]):
        h, s = before_step(h, reset, t), before_step(s, reset, t)
        s = (1 - alpha) * (x[:, t] @ parameters["context.weight"].T) + alpha * s
        h = sigmoid(torch.cat([x[:, t], s], dim=-1) @ a_p.T + b + h @ r.T + c)
        outputs.append(affine(parameters, "output", torch.cat([h, s], dim=-1)))
    return torch.stack(outputs, dim=1), (h, s)


def slstm(config, parameters, x, state, reset):
    """With c and n themselves, without a stabiliser. The state's scale m is computed alongside and is constant to the
    gradient."""
    m, h, c, n = state
    c, n, m, outputs = c * torch.exp(m), n * torch.exp(m), m.detach(), []
    for t in range(x.shape[1]):
        h, c, n = (before_step(part, reset, t) for part in (h, c, n))
        m = torch.where(reset[:, t, None, None], -torch.inf, m)
        mixed = torch.stack([h[:, i] @ block for i, block in enumerate(parameters["recurrent"])], dim=1)
        z, i, f, o = (affine(parameters, "gates", x[:, t]).view(mixed.shape) + mixed).chunk(4, dim=-1)
        m = torch.maximum(torch.log(sigmoid(f)) + m, i).detach()
        c, n = sigmoid(f) * c + torch.exp(i) * torch.tanh(z), sigmoid(f) * n + torch.exp(i)
        h = sigmoid(o) * c / n
        centred = h - h.mean(-1, keepdim=True)
        normed = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
        outputs.append(normed.flatten(1) * parameters["scale"])
    return torch.stack(outputs, dim=1), (m, h, c / torch.exp(m), n / torch.exp(m))


def gru(config, parameters, x, state, reset):
    (h,), outputs = state, []
    w, u, b, c = (parameters[f"cell.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    for t in range(x.shape[1]):
        h = before_step(h, reset, t)
        (w_r, w_z, w_n), (u_r, u_z, u_n) = (x[:, t] @ w.T + b).chunk(3, dim=-1), (h @ u.T + c).chunk(3, dim=-1)
        r, z = sigmoid(w_r + u_r), sigmoid(w_z + u_z)
        h = (1 - z) * torch.tanh(w_n + r * u_n) + z * h
        outputs.append(h)
    return torch.stack(outputs, dim=1), (h,)


def lstm(config, parameters, x, state, reset):
    (h, c), outputs = state, []
    w, u, b, d = (parameters[f"cell.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    for t in range(x.shape[1]):
        h, c = before_step(h, reset, t), before_step(c, reset, t)
        i, f, g, o = (x[:, t] @ w.T + h @ u.T + b + d).chunk(4, dim=-1)
        look_i, look_f, look_o = parameters["peepholes"] if config.peepholes else (0, 0, 0)
        new = sigmoid(f + look_f * c) * c + sigmoid(i + look_i * c) * torch.tanh(g)
        h, c = sigmoid(o + look_o * new) * torch.tanh(new), new
        outputs.append(h)
    return torch.stack(outputs, dim=1), (h, c)


def rnn(config, parameters, x, state, reset):
    (h,), outputs = state, []
    w, u, b, c = (parameters[f"cell.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    for t in range(x.shape[1]):
        z = x[:, t] @ w.T + before_step(h, reset, t) @ u.T + b + c
        h = torch.tanh(z)
        outputs.append(h)
    return torch.stack(outputs, dim=1), (h,)


def retention(config, parameters, x, state, reset):
    """The parallel form, one pair (t, s) at a time, and the recurrent form for the state. S is complex here."""
    width, heads, inner = config.width, config.heads, round(config.width * config.expansion)
    pairs = width // heads // 2
    frequency = torch.tensor([10000.0 ** (-j / pairs) for j in range(pairs)], dtype=torch.float64)
    half_lives = [config.init_half_life ** (1 - head / max(heads - 1, 1)) for head in range(heads)]
    gamma = torch.tensor([0.5 ** (1 / steps) for steps in half_lives], dtype=torch.float64)
    q, k, v, gate = (x @ parameters["qkvg.weight"].T).split((width, width, inner, inner), dim=-1)
    memory = torch.complex(*state[0].unflatten(2, (pairs, 2)).unbind(3)).conj()  # (batch, heads, pairs, values)
    past, outputs = [(-1, None, None)], []  # an entry for the memory, then keys and values
    for t in range(x.shape[1]):
        first, second = k[:, t].unflatten(-1, (heads, pairs, 2)).unbind(-1)
        key, value = (first + 1j * second).conj() / math.sqrt(2 * pairs), v[:, t].unflatten(-1, (heads, -1))
        past.append((t, key, value))
        first, second = q[:, t].unflatten(-1, (heads, pairs, 2)).unbind(-1)
        query, r, final = first + 1j * second, 0, 0
        for s, key, value in past:
            seen = same_episode(reset, s, t)
            turn = gamma[:, None] ** (t - s) * torch.exp(1j * (t - s) * frequency)
            if key is None:
                part = ((query * turn).unsqueeze(-1) * memory).real.sum(2)
            else:
                part = (query * turn * key).real.sum(-1, keepdim=True) * value
            r = r + torch.where(seen[:, None, None], part, 0)
            if t == x.shape[1] - 1:
                held = memory if key is None else key.unsqueeze(-1) * value.unsqueeze(2)
                final = final + torch.where(seen[:, None, None, None], turn.unsqueeze(-1) * held, 0)
        centred = r - r.mean(-1, keepdim=True)
        r = (centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)).flatten(1)
        swish = gate[:, t] * sigmoid(gate[:, t])
        outputs.append((swish * r) @ parameters["output.weight"].T)
    return torch.stack(outputs, dim=1), (torch.stack((final.real, -final.imag), dim=3).flatten(2, 3),)


def aaren(config, parameters, x, state, reset):
    """Softmax attention over the episode so far, recomputed at every step; the carried sums are one more entry
    of weight exp(m) c. The maximum is only a scale: no gradient goes through it."""
    query, width = parameters["query"], parameters["query"].shape[1]
    past, outputs = [(-1, state[0], state[1][..., :-1], state[1][..., -1])], []  # step, exponent, value, weight
    for t in range(x.shape[1]):
        key, value = affine(parameters, "kv", x[:, t]).unflatten(-1, (2, config.heads, width)).unbind(1)
        score = (key * query).sum(-1) / math.sqrt(width)
        past.append((t, score, value, torch.ones_like(score)))
        exponents = [torch.where(same_episode(reset, s, t)[:, None], exponent, -torch.inf) for s, exponent, *_ in past]
        top = torch.stack(exponents).amax(0).detach()
        a, c = 0, 0
        for exponent, (_, _, value, weight) in zip(exponents, past, strict=True):
            a = a + value * torch.exp(exponent - top).unsqueeze(-1)
            c = c + weight * torch.exp(exponent - top)
        outputs.append(affine(parameters, "output", (a / c.unsqueeze(-1)).flatten(1)))
    return torch.stack(outputs, dim=1), (top, torch.cat([a, c.unsqueeze(-1)], dim=-1))


def discretised(parameters, prefix=""):
    """S4D's system: exp(dt A), and C times its integral."""
    dt_log, a_log, a_imag, c = (parameters[prefix + name] for name in ("dt_log", "a_log", "a_imag", "c"))
    dt, a = torch.exp(dt_log)[:, None], -torch.exp(a_log) + 1j * a_imag
    return torch.exp(dt * a), (c[..., 0] + 1j * c[..., 1]) * (torch.exp(dt * a) - 1) / a


def s4d(config, parameters, x, state, reset):
    """The discretised system; the state is the paper's divided by b_bar, in which it is linear."""
    a_bar, c_bar = discretised(parameters)
    h, outputs = state[0] + 1j * state[1], []
    for t in range(x.shape[1]):
        h = a_bar * before_step(h, reset, t) + x[:, t].unsqueeze(-1)
        s = 2 * (c_bar * h).sum(-1).real + parameters["d"] * x[:, t]
        gelu = s / 2 * (1 + torch.erf(s / math.sqrt(2)))
        value, gate = affine(parameters, "output", gelu).chunk(2, dim=-1)
        outputs.append(value * sigmoid(gate))
    return torch.stack(outputs, dim=1), (h.real, h.imag)


def h3(config, parameters, x, state, reset):
    past, real, imag = state
    (a_bar, c_bar), h, outputs = discretised(parameters, "diagonal."), real + 1j * imag, []
    for t in range(x.shape[1]):
        q, k, v = affine(parameters, "qkv", x[:, t]).chunk(3, dim=-1)
        seen = [*before_step(past, reset, t).unbind(1), k]
        p = sum(parameters["shift"][:, j] * seen[j] for j in range(config.kernel)) * v
        h, past = a_bar * before_step(h, reset, t) + p.unsqueeze(-1), torch.stack(seen[1:], dim=1)
        s = 2 * (c_bar * h).sum(-1).real + parameters["d"] * p
        outputs.append(affine(parameters, "output", q * s))
    return torch.stack(outputs, dim=1), (past, h.real, h.imag)


def mamba(config, parameters, x, state, reset):
    past, h = state
    weight, outputs = parameters["convolution.weight"][:, 0], []
    rank = parameters["dt.weight"].shape[1]
    for t in range(x.shape[1]):
        u, z = (x[:, t] @ parameters["input.weight"].T).chunk(2, dim=-1)
        past, h = torch.cat([before_step(past, reset, t), u.unsqueeze(1)], dim=1), before_step(h, reset, t)
        v = sum(past[:, j] * weight[:, j] for j in range(config.kernel)) + parameters["convolution.bias"]
        v, past = v * sigmoid(v), past[:, 1:]
        low, b, c = (v @ parameters["selection.weight"].T).split((rank, config.state_size, config.state_size), dim=-1)
        dt = torch.log(1 + torch.exp(affine(parameters, "dt", low)))
        rows = []
        for i in range(config.state_size):  # one state of a channel at a time
            a = -torch.exp(parameters["a_log"][:, i])
            rows.append(torch.exp(dt * a) * h[:, :, i] + dt * b[:, i : i + 1] * v)
        h = torch.stack(rows, dim=-1)
        y = sum(h[:, :, i] * c[:, i : i + 1] for i in range(config.state_size)) + parameters["d"] * v
        outputs.append((z * sigmoid(z) * y) @ parameters["output.weight"].T)
    return torch.stack(outputs, dim=1), (past, h)


def mlstm(config, parameters, x, state, reset):
    """Step by step, with C and n themselves, without a stabiliser. The state's scale m is computed alongside and is
    constant to the gradient."""
    heads, width = config.heads, config.width // config.heads
    m, both = state
    scale, outputs = torch.exp(m)[..., None, None], []
    c, n, m = both[..., :-1] * scale, both[..., -1] * scale[..., 0], m.detach()
    for t in range(x.shape[1]):
        q, k, v, o = affine(parameters, "qkvo", x[:, t]).chunk(4, dim=-1)
        q, k, v = (part.unflatten(-1, (heads, width)) for part in (q, k, v))
        forget, insert = affine(parameters, "gates", x[:, t]).chunk(2, dim=-1)
        f, i = sigmoid(forget), torch.exp(insert)
        c, n = before_step(c, reset, t), before_step(n, reset, t)
        m = torch.where(reset[:, t, None], -torch.inf, m)
        m = torch.maximum(torch.log(f) + m, insert).detach()
        c = f[..., None, None] * c + i[..., None, None] * k.unsqueeze(3) * v.unsqueeze(2) / width**0.5
        n = f[..., None] * n + i[..., None] * k / width**0.5
        size = (n * q).sum(-1).abs()
        h = (c * q.unsqueeze(3)).sum(2) / torch.where(size > 1, size, 1).unsqueeze(2)
        centred = h - h.mean(-1, keepdim=True)
        h = (centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)).flatten(1)
        outputs.append(affine(parameters, "output", sigmoid(o) * h))
    return torch.stack(outputs, dim=1), (m, torch.cat([c, n.unsqueeze(-1)], dim=-1) / torch.exp(m)[..., None, None])


def transformer(config, parameters, x, state, reset):
    """One pair (t, s) at a time. Rotary positions are complex factors exp(i * position * frequency), and
    positions count from the first step of x, so that those of the memory are negative."""
    (keys, values, count), (batch, time, width) = state, x.shape
    window, heads, pairs = config.window, config.heads, width // config.heads // 2
    frequency = torch.tensor([10000.0 ** (-j / pairs) for j in range(pairs)], dtype=torch.float64)

    def turned(vector, position):
        first, second = vector.view(-1, heads, pairs, 2).unbind(-1)
        return (first + 1j * second) * torch.exp(1j * position * frequency)

    history, outputs = (
        [],
        [],
    )  # of each step: its number, the rows in which it was taken, its key, turned too, and value
    for s in range(-window, 0):
        taken = count >= -s
        key, value = (torch.where(taken[:, None], part[:, s], 0) for part in (keys, values))
        history.append((s, taken, key, turned(key, s), value))
    for t in range(time):
        q, k, v = affine(parameters, "qkv", x[:, t]).chunk(3, dim=-1)
        history.append((t, torch.ones(batch, dtype=torch.bool), k, turned(k, t), v))
        query, weights, mixed = turned(q, t), 0, 0
        for s, taken, _, key, value in history[-window:]:
            seen = (taken & same_episode(reset, s, t))[:, None, None]
            inner = (query * key.conj()).real.sum(-1, keepdim=True)
            weight = torch.where(seen, torch.exp(inner / math.sqrt(2 * pairs)), 0)
            weights, mixed = weights + weight, mixed + weight * value.view(-1, heads, 2 * pairs)
        mixed = (mixed / weights).flatten(1)
        outputs.append(affine(parameters, "output", mixed))
    kept = [(taken & same_episode(reset, s, time - 1), key, value) for s, taken, key, _, value in history[-window:]]
    after = (torch.stack([torch.where(part[0][:, None], part[i], torch.nan) for part in kept], 1) for i in (1, 2))
    return torch.stack(outputs, dim=1), (*after, sum(taken.long() for taken, _, _ in kept))


def conv(config, parameters, x, state, reset):
    """Decision ConvFormer's token mixer: the sum covers at most the episode's own history."""
    weight, (past,), (batch, time, _) = parameters["weight"], state, x.shape
    window, outputs, kept = config.kernel, [], []
    for row in range(batch):
        history = list(past[row])
        for t in range(time):
            history = [x[row, t]] if reset[row, t] else [*history, x[row, t]]
            last = history[-window:]
            outputs.append(parameters["bias"] + sum(weight[:, window - 1 - j] * last[-1 - j] for j in range(len(last))))
        history = [torch.zeros_like(x[row, 0])] * window + history
        kept.append(torch.stack(history[1 - window :]))
    return torch.stack(outputs).view(x.shape), (torch.stack(kept),)


def mlp(config, parameters, x, state, reset):
    """GELU with the error function: u times the probability that a standard normal number is below u."""
    hidden = affine(parameters, "hidden", x)
    return affine(parameters, "output", hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2), ()


def stack(mixer, config, parameters, x, state, reset):
    """x + convolution(x), x + mixer(norm(x)), then x + mlp(norm(x)), in every block, and a final norm."""
    size, parts = len(state) // config.layers, ()
    norm = {"layer": layer_norm, "rms": rms_norm}[config.norm]
    for i in range(config.layers):
        prefix, own = f"blocks.{i}.", state[i * size : (i + 1) * size]
        block = {k.removeprefix(prefix): p for k, p in parameters.items() if k.startswith(prefix)}
        inside = {k.removeprefix("mixer."): p for k, p in block.items() if k.startswith("mixer.")}
        inside["rises"] = [parameters[k] for j in range(1, i + 1) if (k := f"blocks.{j}.mixer.rise") in parameters]
        if config.convolution:
            y, past = convolution(block, x, own[0], reset)
            x, parts, own = x + y, (*parts, past), own[1:]
        y, new = mixer(config, inside, norm(block, "mixer_norm", x), own, reset)
        x, parts = x + y, parts + new
        if config.mlp_ratio:
            hidden = affine(block, "mlp.0", norm(block, "mlp_norm", x))
            x = x + affine(block, "mlp.2", torch.where(hidden > 0, hidden, 0))
    return norm(parameters, "norm", x), parts


def convolution(parameters, x, past, reset):
    """b + w_0 x_{t-k+1} + ... + w_{k-1} x_t per channel, over the episode so far."""
    weight, bias = parameters["convolution.weight"], parameters["convolution.bias"]
    outputs = []
    for t in range(x.shape[1]):
        seen = [*before_step(past, reset, t).unbind(1), x[:, t]]
        outputs.append(bias + sum(weight[:, j] * seen[j] for j in range(weight.shape[1])))
        past = torch.stack(seen[1:], dim=1)
    return torch.stack(outputs, dim=1), past


def layer_norm(parameters, name, x):
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
    return scaled * parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def rms_norm(parameters, name, x):
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-5) * parameters[f"{name}.weight"]
