"""Adversaries chase good agents that hide in forests, guided by a leader."""

from warpdrive.envs.simple_world_comm.simple_world_comm import SimpleWorldComm

__all__ = ["SimpleWorldComm"]
