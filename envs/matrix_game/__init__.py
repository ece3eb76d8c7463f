"""Agents repeat a matrix game, such as the climbing game and the penalty game."""

from warpdrive.envs.matrix_game.matrix_game import MatrixGame

__all__ = ["MatrixGame"]
