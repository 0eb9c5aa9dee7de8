"""Records the datasets on which defaults are chosen and tried, under own/.

    python scripts/own_sets.py    # about four minutes on two cores (estimate)

The policies ship with the package. None of these datasets is a stand-in for one of D4RL's. The first two are for
choosing defaults, the others for trying them once. SAC trained the policies, but for those that ARS and PPO trained
further, whose actions have more noise than they learnt with, so that they fall about as often as those of medium data.
The replays are of other policies, and other shares of them, than the stand-ins.
"""

from decision_rnn import write_store
from decision_rnn.data.standin.collection import collect
from decision_rnn.data.standin.recipes import UNIFORM, Recipe
from decision_rnn.data.store.unfinished import unfinished


def of_one_policy(environment_id: str, policy: str, noise: float = 1.0) -> Recipe:
    return Recipe(environment_id, ((policy, 1.0),), 200_000, noise=noise)


DEVELOPMENT = {
    "own/hopper-130k": of_one_policy("Hopper-v5", "hopper-seed1-0130k"),
    "own/walker2d-540k": of_one_policy("Walker2d-v5", "walker2d-seed0-0540k"),
}
TEST = {
    "own/hopper-180k": of_one_policy("Hopper-v5", "hopper-seed0-0180k"),
    "own/hopper-140k": of_one_policy("Hopper-v5", "hopper-seed1-0140k"),
    "own/walker2d-260k": of_one_policy("Walker2d-v5", "walker2d-seed0-0260k"),
    "own/hopper-ars": of_one_policy("Hopper-v5", "hopper-seed0-0150k-ars0-0090", noise=2.0),
    "own/walker2d-ppo": of_one_policy("Walker2d-v5", "walker2d-seed1-0760k-ppo0-8500k", noise=5.0),
    "own/hopper-replay": Recipe(
        "Hopper-v5",
        ((UNIFORM, 0.4), ("hopper-seed1-0130k", 0.4), ("hopper-seed1-0140k", 0.1), ("hopper-seed3half-0138k", 0.1)),
        300_000,
    ),
    "own/walker2d-replay": Recipe(
        "Walker2d-v5",
        (
            (UNIFORM, 0.5),
            ("walker2d-seed0-0140k", 0.25),
            ("walker2d-seed0-0260k", 0.1),
            ("walker2d-seed0-0570k", 0.15),
        ),
        300_000,
    ),
}


def main() -> None:
    for name, recipe in {**DEVELOPMENT, **TEST}.items():
        with unfinished(name, recipe.describe()) as played:
            store = write_store(name, collect(recipe, played), recipe.environment_id)
        returns = store.episode_returns
        print(f"{name}: {store.episodes:,} episodes, return {returns.mean():.0f} ± {returns.std():.0f}")


if __name__ == "__main__":
    main()
