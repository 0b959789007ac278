"""The Model Context Protocol: the memory as tools of an agent, served in the daemon and relayed beside the agent."""
