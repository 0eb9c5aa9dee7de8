"""Makes a folder of results/ from the folder that `decision-rnn compare` wrote.

    python scripts/publish_comparison.py runs/locomotion results/locomotion Locomotion

The folder has the data (comparison.json), the configuration (config.yaml), the picture (scores.svg) and README.md with
the tables under a title.
"""

import argparse
import shutil
from pathlib import Path

from decision_rnn import read_comparison
from decision_rnn.comparison.results import write_comparison


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder that compare wrote")
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("title")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write_comparison(arguments.folder, read_comparison(arguments.comparison))
    shutil.copy(arguments.comparison / "config.yaml", arguments.folder)
    tables = arguments.folder / "comparison.md"
    (arguments.folder / "README.md").write_text(f"# {arguments.title}\n\n{tables.read_text()}")
    tables.unlink()


if __name__ == "__main__":
    main()
