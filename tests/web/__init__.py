"""A server for tests: in this process, or as a process of its own."""
