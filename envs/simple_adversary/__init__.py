"""Good agents hide from an adversary which landmark is their goal."""

from warpdrive.envs.simple_adversary.simple_adversary import SimpleAdversary

__all__ = ["SimpleAdversary"]
