"""From torch graphs to kernel-level programs."""
