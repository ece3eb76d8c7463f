"""Two players drop discs into columns and try to connect four."""

from warpdrive.envs.connect_four.connect_four import ConnectFour

__all__ = ["ConnectFour"]
