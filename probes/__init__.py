"""The only code that touches a clock or a device: what is measured, and how."""
