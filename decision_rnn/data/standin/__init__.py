"""Stand-ins for the D4RL sets: who plays them, by which recipe, and how they are collected."""
