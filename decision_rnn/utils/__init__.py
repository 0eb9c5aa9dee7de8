"""What all packages use: files, processes, messages, errors."""
