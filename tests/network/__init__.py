"""An emulated network whose delay and rate are known, and what the probe finds on it."""
