"""Offline reinforcement learning with a return-conditioned agent and a swappable sequence backbone.

    run = decision_rnn.train("hopper-medium", backbone="mingru")
    print(run.evaluate([3600]))

Data: `open_dataset`, `import_log`, `write_store`, `record`, `merge_datasets`, `remove_dataset`. Agents: `train`,
`evaluate`, `compare`, `load_agent`. Extensions: `register_backbone`, `register_objective`, `register_condition`,
`register_metric`, `register_source`. Invalid input raises `InputError`, a ValueError.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
