"""Environments of other libraries, stepped on the host, as replicas for the trainer."""
