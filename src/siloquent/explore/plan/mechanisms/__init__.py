"""Mechanisms without data: each one's price, its calibration to a promise, and a value that says what it draws."""
