"""An agent that no policy tag names."""

from base import Walk

EXPECTED = r"policy_tags must give each of the agents 0 to 2 one tag; agent 2 is missing"


class Broken(Walk):
    def __init__(self):
        super().__init__()
        self.policy_tags = {"walker": [0, 1]}
