"""The upkeep of a memory from outside of the daemon: the doctor, exports, and the proof of its worth."""
