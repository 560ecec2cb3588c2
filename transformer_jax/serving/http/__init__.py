"""Requests, as strangers send them: connections, keys, limits, fields."""
