"""The state of work that is under way, in sessions that go on."""
