"""What happened in a session that a predictor may have something to say about."""

from enum import Flag, auto


class Cue(Flag):
    """One or several occasions at once; an empty one is no occasion."""

    OPENED = auto()  # nothing was said yet
    SAID = auto()  # a turn, or more of the one that is being spoken
    FOUND = auto()  # what was said found memories
    USED = auto()  # the agent said which memories its answer was built on


NOTHING = Cue(0)
