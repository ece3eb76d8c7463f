"""Environments for other libraries: one module per library, imported on first use."""
