"""Games of the Atari 2600."""
