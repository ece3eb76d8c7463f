"""Alice and Bob encrypt a bit that Eve reads."""

from warpdrive.envs.simple_crypto.simple_crypto import SimpleCrypto

__all__ = ["SimpleCrypto"]
