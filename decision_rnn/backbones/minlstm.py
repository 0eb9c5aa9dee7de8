"""minLSTM: an LSTM whose gates depend only on the input, so that it is a linear recurrence.

Feng et al., "Were RNNs All We Needed?" (2024), section 3.2 and appendix B:

    f_t = sigmoid(W_f x_t),  i_t = sigmoid(W_i x_t),  c_t = g(W_h x_t)
    f'_t = f_t / (f_t + i_t),  i'_t = i_t / (f_t + i_t)          length-independent scaling
    h_t = f'_t * h_{t-1} + i'_t * c_t

Deviations from the paper: as for minGRU (mingru.py). The quotient is computed as i' = sigmoid(log i - log f), because f
and i both underflow for strongly negative gates. The bias of i begins as far below 0 as that of f above
(time_scales.py), so that f' is about f: with i at 1/2, f' would be at most 2/3. With `gate: stretched` i' is stretched
and clipped as z is in minGRU, and f' is 1 - i'.
"""

from decision_rnn.backbones.contract import config_dataclass, register_backbone
from decision_rnn.backbones.mingru import MinGRU, MinimalConfig


@config_dataclass
class MinLSTMConfig(MinimalConfig):
    """minLSTM, "Were RNNs All We Needed?"."""

    name: str = "minlstm"


@register_backbone(MinLSTMConfig)
class MinLSTM(MinGRU):
    """State: h, (batch, width * expansion). minGRU with two gates for one: f and i."""

    keep_gates = (1.0, -1.0)
