"""Adversaries chase faster good agents around obstacles."""

from warpdrive.envs.simple_tag.simple_tag import SimpleTag

__all__ = ["SimpleTag"]
