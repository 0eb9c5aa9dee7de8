"""What all rooms use: files, processes, messages, errors."""
