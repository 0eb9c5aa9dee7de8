"""Files that others read and write: bytes to episodes and back."""
