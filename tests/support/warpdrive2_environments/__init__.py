"""Environments and a model in the form of WarpDrive 2."""
