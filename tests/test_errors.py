"""UserError's helpers: paths, lists of names and suggestions."""

import math

import pytest

from transformer_jax.errors import UserError, did_you_mean, figure, first_line, listing, user_path


def test_a_long_listing_is_shortened():
    assert listing(map(str, range(22))).endswith("'19' and 2 more")
    assert listing(['x' * 61]) == repr('x' * 57 + '...')
    assert listing([]) == 'none'


@pytest.mark.parametrize(
    ('value', 'text'),
    [(1.234, '1.23'), (0, '0.00'), (math.nan, '-'), (math.inf, '-'), (-math.inf, '-'), (None, '-')],
)
def test_a_figure_is_a_number_or_a_dash(value, text):
    assert figure(value, '.2f') == text


def test_did_you_mean_gives_the_nearest_name_if_one_is_near():
    assert did_you_mean('tran.en', ['train.en', 'dev.en']) == ": did you mean 'train.en'?"
    assert did_you_mean('zzz', ['train.en', 'dev.en']) == '.'


def test_first_line_gives_the_first_line_of_an_exception():
    assert first_line(ValueError('No space.\nlong trace')) == 'No space'
    assert first_line(ValueError()) == 'ValueError'


def test_the_home_of_an_unknown_user_is_refused():
    with pytest.raises(UserError, match=r"^x='~no_such_user/a' names a user without a home"):
        user_path('~no_such_user/a', 'x')


@pytest.mark.parametrize('path', ['gs://bucket/run', 's3://bucket/run'])
def test_a_url_is_refused_as_a_path(path):
    with pytest.raises(
        UserError, match=f"^x='{path}' is a URL: give a path in a mounted file system"
    ):
        user_path(path, 'x')


def test_stdin_is_refused_as_a_path():
    with pytest.raises(UserError, match=r"^x='-' means stdin or stdout, which cannot stand here"):
        user_path('-', 'x')


def test_a_path_that_is_not_utf_8_is_refused():
    with pytest.raises(UserError, match=r"^x='donn\\udce9es' is not UTF-8: rename it"):
        user_path('donn\udce9es', 'x')


def test_a_message_keeps_the_start_and_the_end_of_a_very_long_value():
    message = str(UserError(f'--scores={"x" * 100_000}: remove it.'))
    assert message.startswith('--scores=xxx') and message.endswith('xxx: remove it.')
    assert len(message) < 1000


def test_a_message_is_one_line_whatever_its_values_are():
    assert str(UserError('a\nb\x1b[2J\u202e\ud800é')) == 'a\\nb\\x1b[2J\\u202e\\ud800é'
