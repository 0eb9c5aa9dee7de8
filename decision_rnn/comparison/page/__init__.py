"""The page of a comparison: one self-contained HTML file."""
