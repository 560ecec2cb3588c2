from transformer_jax.serving import downloads
from transformer_jax.serving.downloads import Downloads


def test_a_file_is_kept_for_ten_minutes():
    now = [0.0]
    kept = Downloads(lambda: now[0])
    token = kept.keep('a.txt', b'a')
    now[0] = 599.0
    assert kept.get(token)[:2] == ('a.txt', b'a')
    now[0] = 600.0
    assert kept.get(token) is None


def test_later_files_take_the_place_of_earlier_ones(monkeypatch):
    monkeypatch.setattr(downloads, '_MOST_BYTES', 2100)
    kept = Downloads()
    tokens = [kept.keep(str(size), b'a' * size) for size in (4, 4, 4)]
    assert [kept.get(x) is not None for x in tokens] == [False, True, True]
    assert kept.get(kept.keep('large', b'a' * 2000)) is None
    assert len({*tokens}) == 3


def test_names_and_empty_files_need_a_place_too(monkeypatch):
    monkeypatch.setattr(downloads, '_MOST_BYTES', 2100)
    kept = Downloads()
    tokens = [kept.keep('', b'') for _ in range(3)]
    assert kept.get(tokens[0]) is None
    assert kept.get(kept.keep('a' * 2000, b'')) is None
