"""Bare layers."""
