"""Search for the number of replicas and the rollout length with the highest training throughput on this machine."""

from warpdrive.training.autoscale.find import Autoscaled, autoscale

__all__ = ["Autoscaled", "autoscale"]
