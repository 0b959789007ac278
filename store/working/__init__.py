"""Work that is under way: sessions, their anchors and goals, what they were told, what an act recalls, and tools."""

from .anchors import Anchors
from .cues import Cues
from .goals import Goals
from .sessions import HandedSessions, SessionsAtWork
from .told import ToldTexts
from .toolbox import Toolbox

__all__ = ["Anchors", "Cues", "Goals", "HandedSessions", "SessionsAtWork", "ToldTexts", "Toolbox"]
