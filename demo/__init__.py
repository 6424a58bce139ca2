"""The demo: a small Llama learns to write the functions of the standard library from their docstrings."""
