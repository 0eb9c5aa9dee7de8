"""Episodes as a packed table on disk: written, verified, opened in milliseconds."""
