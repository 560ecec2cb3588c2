"""What is found to be the same in all languages, and what is not."""

import pytest
from growth import is_linear

from transformer_jax.translating.placeholders.patterns import (
    Kind,
    find_placeholders,
    without_placeholders,
)


def found(text):
    return [text[x.begin : x.end] for x in find_placeholders(text)]


def kinds(text):
    return [x.kind for x in find_placeholders(text)]


@pytest.mark.parametrize(
    'placeholder',
    [
        *['%d', '%s', '%@', '%ld', '%lu', '%zd', '%.2f', '%5d', '%1$s', '%2$@', '%-10s', '%d%%'],
        *['%(name)s', '%(count)d', '%(x).2f', '%<name>s', '%Y', '%Y-%m-%d', '%H:%M', '%count%'],
        *['{}', '{0}', '{name}', '{user.name}', '{count:,}', '{0!r}', '{items[0]}', '{0,10:N2}'],
        *['{ $name }', '{-brand-name}', '{date:%Y-%m-%d}', '{n, number}', '{{ a }}', '{{{ a }}}'],
        *['%{a}', '#{a}', '${a}', '{% if a %}', '{# a #}', '<%= a %>', '<% a %>', '<?php a ?>'],
        '{n, plural, one {# message} other {# messages}}',
        *['https://a.org/b?c=d#e', 'http://a.org/b_(c)', 'ftp://a.org/b', 'www.a.org', 'a.com/b'],
        *['mailto:tom@a.org', 'tel:+33-123', 'tom@a.org', 'example.com', '@tom', '#cats'],
        *['/usr/bin/x', '/etc', '~/x', './x', '../x/y', 'src/a.py'],
        *['C:\\x\\y', 'C:\\Program Files\\x.exe', 'C:/x/y.txt', '\\\\host\\share\\x'],
        *['100%%', '$NAME', '$user_id', '[[name]]', '«FIELD_1»', '__NAME__', '@@name@@'],
        *['{#if a}', '{:else}', '\\n', '&amp;', '&#160;', '`git commit -m x`', '--help', '--a-b=c'],
        *['file.txt', 'my-page.html', '192.168.1.1', '2.0.1', 'v1.2.3', '12.05.2024'],
        *['{first} {last}', '%d/%d', '{name}s', 'user%d', '{a}{b}'],
    ],
)
def test_a_placeholder_is_found_within_a_sentence(placeholder):
    for text in ('See {} now.', 'Is it {}?', 'The end ({}).', '“{}”, he said.', '{}', 'A: {}!'):
        assert found(text.replace('{}', placeholder, 1)) == [placeholder]


@pytest.mark.parametrize(
    'text',
    [
        "50% of them, 100 % sure, 100%. A 20%-ige Lösung, 5 % d'alcool, 50%d.",
        'and/or km/h TCP/IP he/she/they w/o N/A 24/7 1/2 3/4 12/05/2024 $5/month a/b - / -',
        'I am #1 in C#: see {see below}, at 3:00 (10:30:15) e.g. in the U.S. The end.Then we go.',
        'Use Node.js @ home; a < b > c, a <= b. He said -- well -- no. R&B; AT&T; [1] a_b $20.00',
    ],
)
def test_prose_has_no_placeholders(text):
    assert found(text) == []


@pytest.mark.parametrize(
    ('text', 'kind'),
    [
        ('%d', Kind.NUMBER),
        ('%.2f%%', Kind.NUMBER),
        ('%(count)d', Kind.NUMBER),
        ('%d/%d', Kind.NUMBER),
        ('%Y-%m-%d', Kind.NUMBER),
        ('{count:,}', Kind.NUMBER),
        ('%{count}', Kind.NUMBER),
        ('{{ user.age }}', Kind.NUMBER),
        ('%s', Kind.NAME),
        ('{name}', Kind.NAME),
        ('{country}', Kind.NAME),
        ('%d {name}', Kind.NAME),
        ('user%d', Kind.NAME),
        ('tom@a.org', Kind.NAME),
        ('{% endif %}', Kind.SIGN),
        ('<?php x ?>', Kind.SIGN),
    ],
)
def test_a_placeholder_has_the_kind_of_what_it_stands_for(text, kind):
    assert kinds(text) == [kind]


def test_commands_of_a_template_are_apart_from_what_is_beside_them():
    assert found('{% if a %}{a}{% endif %}') == ['{% if a %}', '{a}', '{% endif %}']


def test_only_the_rest_of_a_text_is_without_placeholders():
    assert without_placeholders('See {a} at https://a.org/b.') == 'See   at  .'
    assert without_placeholders('See it.') == 'See it.'


@pytest.mark.parametrize(
    'part',
    [
        *['http://', 'www.', 'http://a(', 'www.a.', 'a@', 'a@a.', '{', '{{', '{%', '#a', '@.'],
        *['%', '%(', '%1$', '%a', '{a,plural,', '{a,plural,{}', '/a', '/', 'a/', 'a/.', './', '~/'],
        *[
            'C:\\',
            'C:\\a ',
            '\\\\',
            '\\\\a\\',
            '<%',
            '<?',
            'a.',
            'a-.',
            '%{',
            'a',
            'a_%s',
            '-',
            ' ',
        ],
    ],
)
def test_placeholders_are_found_in_linear_time(part):
    assert is_linear(find_placeholders, lambda size: part * size, 5_000)
