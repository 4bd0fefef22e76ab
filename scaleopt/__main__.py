"""`python -m scaleopt` is the command `scaleopt`."""

from scaleopt.cli import app

app(prog_name="scaleopt")
