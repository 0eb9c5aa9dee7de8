"""Reads and writes episodes in the file formats of other tools."""
