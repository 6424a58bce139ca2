"""Running programs: emitted code, saved state, and the meter that checks what they take."""
