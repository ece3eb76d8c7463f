"""Kernel checks on any machine: races, bounds, uninitialised memory, divergence, order, float64, NaN.

An interpreter runs a kernel thread by thread and sees every memory access. ``docs/checks.md`` describes what is
reported and what is not.
"""

from __future__ import annotations

from warpdrive.checks.behaviour import check_environment_behaviour
from warpdrive.checks.environment import check_environment_kernels
from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.launch import check_launch

__all__ = ["Finding", "Report", "check_environment_behaviour", "check_environment_kernels", "check_launch"]
