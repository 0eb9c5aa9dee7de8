"""Makes a folder of results/ from the folders that `decision-rnn compare` wrote.

    python scripts/publish_comparison.py runs/locomotion results/locomotion Locomotion

The folder has the data (comparison.json), the configuration (config.yaml), the picture (scores.svg) and README.md with
the tables under a title. Several comparisons on the same data are joined: of other seeds or variants, and from other
machines. One of them may be the published folder itself.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from decision_rnn import InputError, read_comparison
from decision_rnn.comparison.results import Comparison, write_comparison
from decision_rnn.utils.parsing import read_yaml


def join(comparisons: Sequence[Comparison]) -> Comparison:
    """All runs of comparisons; `InputError` if these are not every variant on every dataset with every seed, once."""
    first = comparisons[0]
    variants = {variant.label: variant for comparison in reversed(comparisons) for variant in comparison.variants}
    labels = list(dict.fromkeys(variant.label for comparison in comparisons for variant in comparison.variants))
    for comparison in comparisons[1:]:
        if (comparison.datasets, comparison.episodes) != (first.datasets, first.episodes):
            raise InputError(f"{comparison.command} has other datasets, targets or episodes than {first.command}")
        for variant in comparison.variants:
            own, shared = ({**each.config, "seed": 0} for each in (variant, variants[variant.label]))
            if own != shared:
                raise InputError(f"{variant.label} has another configuration in {comparison.command}")
    joined = replace(
        first,
        command="` and `".join(dict.fromkeys(comparison.command for comparison in comparisons)),
        seeds=tuple(sorted({seed for comparison in comparisons for seed in comparison.seeds})),
        variants=tuple(variants[label] for label in labels),
        trials=tuple(trial for comparison in comparisons for trial in comparison.trials),
        failed=tuple(failure for comparison in comparisons for failure in comparison.failed),
    )
    datasets = [dataset.data.name for dataset in joined.datasets]
    runs = sorted((run.variant, run.dataset, run.seed) for run in (*joined.trials, *joined.failed))
    if runs != sorted(product(labels, datasets, joined.seeds)):
        raise InputError("the comparisons do not hold every variant on every dataset with every seed once")
    return joined


def shared_keys(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in ("seed", "seeds", "variants")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", type=Path, nargs="+", help="the folders that compare wrote")
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("title")
    arguments = parser.parse_args()
    comparison = join([read_comparison(folder) for folder in arguments.comparisons])
    configs = [read_yaml(folder / "config.yaml") for folder in arguments.comparisons]
    if any(shared_keys(config) != shared_keys(configs[0]) for config in configs):
        raise InputError("the comparisons' config.yaml differ in more than seeds and variants")
    own = {label: keys for config in configs for label, keys in config["variants"].items()}
    config = {**shared_keys(configs[0]), "seeds": list(comparison.seeds), "variants": own}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write_comparison(arguments.folder, comparison)
    written = yaml.safe_dump(config, sort_keys=False, default_flow_style=None)
    (arguments.folder / "config.yaml").write_text(written)
    tables = arguments.folder / "comparison.md"
    (arguments.folder / "README.md").write_text(f"# {arguments.title}\n\n{tables.read_text()}")
    for file in (tables, arguments.folder / "report.html"):
        file.unlink()


if __name__ == "__main__":
    main()
