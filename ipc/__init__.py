"""The wire: protocol, server, thin client. Never imports pipelines or llm."""
