"""Chefs cook and deliver soups together in a narrow kitchen."""

from warpdrive.envs.overcooked.overcooked import Overcooked

__all__ = ["Overcooked"]
