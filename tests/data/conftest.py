"""Fixtures that several tests of data share."""

import socket

import pytest


@pytest.fixture
def no_network(monkeypatch):
    """Make every attempt to open a connection fail."""

    def refuse(*args, **kwargs):
        raise AssertionError('a connection was attempted')

    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
