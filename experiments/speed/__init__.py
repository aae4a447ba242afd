"""How fast training, ranking and serving are, and what they take."""
