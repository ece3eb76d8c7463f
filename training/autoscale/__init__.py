"""Finds the number of replicas and the length of a rollout with which training is fastest on this machine."""

from warpdrive.training.autoscale.find import Autoscaled, autoscale

__all__ = ["Autoscaled", "autoscale"]
