"""Training: from a configuration and a dataset to a trained agent in a run folder."""
