"""Where the cells of a comparison run."""
