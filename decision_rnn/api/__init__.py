"""The Python API: training, evaluation, comparison and recording; a thin layer over the package."""
