"""Work that is under way: sessions, their anchors and goals, what they were told, and what an act recalls."""

from .anchors import Anchors
from .cues import Cues
from .goals import Goals
from .sessions import HandedSessions, SessionsAtWork
from .told import ToldTexts

__all__ = ["Anchors", "Cues", "Goals", "HandedSessions", "SessionsAtWork", "ToldTexts"]
