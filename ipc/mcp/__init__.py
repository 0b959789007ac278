"""The Model Context Protocol: the memory as tools of an agent, served by the daemon through a relay."""
