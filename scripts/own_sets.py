"""Records the datasets of one behaviour policy each on which defaults are chosen and tried, under own/.

    python scripts/own_sets.py    # about three minutes on two cores (estimate)

The policies ship with the package. None of these datasets is a stand-in for one of D4RL's, and the first two are for
choosing defaults, the others for trying them once. SAC trained the policies, but for those that ARS and PPO trained
further, whose actions have more noise than they learnt with, so that they fall about as often as those of medium data.
"""

from decision_rnn import write_store
from decision_rnn.data.standin.collection import collect
from decision_rnn.data.standin.recipes import Recipe
from decision_rnn.data.store.unfinished import unfinished

STEPS = 200_000
DEVELOPMENT = {
    "own/hopper-130k": ("Hopper-v5", "hopper-seed1-0130k", 1.0),
    "own/walker2d-540k": ("Walker2d-v5", "walker2d-seed0-0540k", 1.0),
}
TEST = {
    "own/hopper-180k": ("Hopper-v5", "hopper-seed0-0180k", 1.0),
    "own/hopper-140k": ("Hopper-v5", "hopper-seed1-0140k", 1.0),
    "own/walker2d-260k": ("Walker2d-v5", "walker2d-seed0-0260k", 1.0),
    "own/hopper-ars": ("Hopper-v5", "hopper-seed0-0150k-ars0-0090", 2.0),
    "own/walker2d-ppo": ("Walker2d-v5", "walker2d-seed1-0760k-ppo0-8500k", 5.0),
}
"""By name, the environment, the policy and the factor on its noise."""


def main() -> None:
    for name, (environment_id, policy, noise) in {**DEVELOPMENT, **TEST}.items():
        recipe = Recipe(environment_id, ((policy, 1.0),), STEPS, noise=noise)
        with unfinished(name, recipe.describe()) as played:
            store = write_store(name, collect(recipe, played), environment_id)
        returns = store.episode_returns
        print(f"{name}: {store.episodes:,} episodes, return {returns.mean():.0f} ± {returns.std():.0f}")


if __name__ == "__main__":
    main()
