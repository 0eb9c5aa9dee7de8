"""Episodes in the environment, and the scores made of them."""
