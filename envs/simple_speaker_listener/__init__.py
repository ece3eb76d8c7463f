"""A speaker tells a listener where to go."""

from warpdrive.envs.simple_speaker_listener.simple_speaker_listener import SimpleSpeakerListener

__all__ = ["SimpleSpeakerListener"]
