"""Records the datasets of one behaviour policy each on which defaults are chosen and tried, under own/.

    python scripts/one_policy_sets.py    # about two minutes on two cores (estimate)

The policies ship with the package. None of these datasets is a stand-in for one of D4RL's, and the first two are for
choosing defaults, the others for trying them once.
"""

from decision_rnn import write_store
from decision_rnn.data.standin.collection import collect
from decision_rnn.data.standin.recipes import Recipe
from decision_rnn.data.store.unfinished import unfinished

STEPS = 200_000
DEVELOPMENT = {
    "own/hopper-130k": ("Hopper-v5", "hopper-seed1-0130k"),
    "own/walker2d-540k": ("Walker2d-v5", "walker2d-seed0-0540k"),
}
TEST = {
    "own/hopper-180k": ("Hopper-v5", "hopper-seed0-0180k"),
    "own/hopper-140k": ("Hopper-v5", "hopper-seed1-0140k"),
    "own/walker2d-260k": ("Walker2d-v5", "walker2d-seed0-0260k"),
}


def main() -> None:
    for name, (environment_id, policy) in {**DEVELOPMENT, **TEST}.items():
        recipe = Recipe(environment_id, ((policy, 1.0),), STEPS)
        with unfinished(name, recipe.describe()) as played:
            store = write_store(name, collect(recipe, played), environment_id)
        returns = store.episode_returns
        print(f"{name}: {store.episodes:,} episodes, return {returns.mean():.0f} ± {returns.std():.0f}")


if __name__ == "__main__":
    main()
