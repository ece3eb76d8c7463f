"""Taggers and runners on a continuous square."""

from warpdrive.envs.tag_continuous.tag_continuous import TagContinuous

__all__ = ["TagContinuous"]
