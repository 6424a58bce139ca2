"""Benchmarks: each is a command that prints a table and writes JSON (`python -m benchmarks NAME`)."""
