import pytest

from transformer_jax.serving.http.clients import client_of_address


@pytest.mark.parametrize(
    ('address', 'client'),
    [
        ('10.0.0.1', '10.0.0.1'),
        ('::ffff:10.0.0.1', '10.0.0.1'),
        ('2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'),
        ('fe80::1%eth0', 'fe80::/64'),
        ('of a proxy', 'of a proxy'),
    ],
)
def test_a_client_is_an_address_or_a_network_of_ipv6(address, client):
    assert client_of_address(address) == client
