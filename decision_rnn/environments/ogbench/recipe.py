"""What the recipes of OGBench's data have in common."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from decision_rnn.data.episode import Episode
from decision_rnn.environments.ogbench.environment import global_generator, seeded
from decision_rnn.environments.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class OGBenchRecipe(Recipe):
    """Episodes of one of OGBench's oracles in its own environment.

    Attributes:
        task: One of `TASKS`.
        kind: How the oracle acts, as in OGBench's names.
        length: The number of steps of an episode.
    """

    chunk = 4
    task: str
    kind: str
    length: int = 1_000

    def player(self) -> Callable[[int], Episode]:
        play = self.unseeded_player()

        def play_seeded(index: int) -> Episode:
            with global_generator(seeded(index)):
                return play()

        return play_seeded

    @abstractmethod
    def unseeded_player(self) -> Callable[[], Episode]:
        """A function that plays an episode, drawing from NumPy's global generator, as OGBench's oracles do."""
