"""Stand-ins for the D4RL datasets: their policies, recipes and collection."""
