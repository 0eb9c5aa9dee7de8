"""POPGym's RepeatFirst and RepeatPrevious (Morad et al. 2023): their scripted experts.

Cards are dealt one at a time, of which the suit is seen, an integer from 0 to 3. In RepeatFirst an action is right if
it is the suit of the first card, in RepeatPrevious if it is that of the k-th last card, the present one being the
last: k is 4 (Easy), 32 (Medium), 64 (Hard). Right actions earn 1 in total over an episode, wrong ones lose as much.
"""

from typing import Any


def repeat_first(environment: Any) -> int:
    """The suit of the first card, from the environment's hidden state."""
    return int(environment.get_state()[0])


def repeat_previous(environment: Any) -> int:
    """The suit of the k-th last card, from the environment's hidden state; 0 while there are fewer cards."""
    return int(environment.get_state()[0][0])
