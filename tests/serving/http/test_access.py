import pytest

from transformer_jax.errors import UserError
from transformer_jax.serving.http import access as access_module
from transformer_jax.serving.http.access import Access, read_keys


def test_keys_and_their_limits_are_read(tmp_path):
    path = tmp_path / 'keys'
    path.write_text('\ufeff# ours\none\n\ntwo 30\n', encoding='utf-8')
    access = Access(read_keys(path))
    assert [access.is_known(key) for key in ('one', 'two', 'three', '', '# ours')] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert sorted(map(str, access.keys.values())) == ['30', 'None']


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('a b', 'line 1, is not KEY'),
        ('a\na 1 2', 'line 2, is not KEY'),
        ('a\nb\na 5', 'line 3, repeats the key of an earlier line'),
        ('# none\n', 'has no key'),
        (b'\xff', 'is not UTF-8'),
        (None, 'cannot be read'),
    ],
)
def test_a_file_of_keys_that_cannot_be_used_is_refused(tmp_path, text, problem):
    path = tmp_path / 'keys'
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=problem):
        read_keys(path)


def test_requests_are_limited_for_each_client_within_a_minute():
    now = [0.0]
    access = Access(requests_per_minute=2, clock=lambda: now[0])
    assert [access.seconds_to_wait('', 'a') for _ in range(3)] == [0, 0, 60]
    assert access.seconds_to_wait('', 'b') == 0
    now[0] = 59.0
    assert access.seconds_to_wait('', 'a') == 1
    now[0] = 60.5
    assert access.seconds_to_wait('', 'a') == 0


def test_many_clients_are_not_looked_through_for_every_request(monkeypatch):
    monkeypatch.setattr(access_module, '_MOST_CLIENTS', 4)
    now, looks = [0.0], []
    access = Access(requests_per_minute=1, clock=lambda: now[0])
    forget = access._forget
    monkeypatch.setattr(access, '_forget', lambda now: looks.append(now) or forget(now))
    assert [access.seconds_to_wait('', f'{k}') for k in range(200)] == [0] * 200
    assert 0 < len(looks) < 10
    now[0] = 61.0
    for k in range(200, 500):
        access.seconds_to_wait('', f'{k}')
    assert len(access._times) < 400  # the first ones are forgotten


def test_a_key_may_have_a_limit_of_its_own(tmp_path):
    (tmp_path / 'keys').write_text('few 1\nfree 0\nusual\n')
    access = Access(read_keys(tmp_path / 'keys'), requests_per_minute=2, clock=lambda: 0.0)
    counts = {
        key: sum(access.seconds_to_wait(key, 'a') == 0 for _ in range(5))
        for key in ('few', 'free', 'usual')
    }
    assert counts == {'few': 1, 'free': 5, 'usual': 2}
