"""Agents: the searchers that work through the protocol like any outsider. Not for judging, nor for the database."""
