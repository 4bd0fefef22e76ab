"""Measurements as they were taken: one tidy table, every raw repeat a row."""
