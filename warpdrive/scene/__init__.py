"""Pictures of states as shapes in world coordinates, independent of how they are shown."""
