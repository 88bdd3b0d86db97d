"""Sections of the settings: the declarations, and what those of one section say of each other."""
