import collections
import html
import random
import re

import pytest
from fake_translator import upper
from growth import is_linear
from office_files import with_gaps

from transformer_jax.documents.html import HtmlDocument
from transformer_jax.errors import UserError
from transformer_jax.translating.outputs import Translation


def in_order(text, order):
    """Return a translation: words in upper case, in this order."""
    words = upper(text).split()
    alignment = tuple((source, target) for target, source in enumerate(order))
    return Translation(' '.join(words[k] for k in order), 0.0, (), alignment=alignment)


def reversed_words(source):
    found = HtmlDocument(source)
    return found.translated([in_order(x, range(len(x.split()))[::-1]) for x in found.texts])


@pytest.mark.parametrize(
    'source',
    [
        '',
        'a',
        '<!DOCTYPE html>\n<html lang="en"><head><title>T</title></head><body>a <!-- c --> b</body>',
        '<p class="x">a <b>b</b>, <i><u>c</u> d</i>!</p>\n\n<p>e</p>',
        'a <img src="x"> b<br/>c<wbr>',
        '<b>a<p>b</b> c</p>',
        '<ul><li>a</li>\n <li>b <a href="?x=1&amp;y=2">c</a></li></ul>',
        '<i class="icon"></i> a',
        'a<sup>2</sup> b',
        '<p>&lt;b&gt; &amp; c</p>',
        'a </b> b',
        '<b>never closed',
        '<?php x ?> a <![CDATA[x]]> b',
        'a <![CDATA[b>c d]]> e',
        '<!-- a > b -->c</ d>e <!f> g',
        '<!DOCTYPE a><!b>c<![CDATA[>]]>',
        '<code><![CDATA[a>b]]></code> a <![CDATA[>]]><![CDATA[>]]>',
        '<span translate="no">a <span>b</span></span> c',
        'CO<sub>2</sub>, a<sup>2</sup>',
    ],
)
def test_tags_stay_where_words_stay(source):
    found = HtmlDocument(source)
    same = [
        Translation(x, 0.0, (), alignment=tuple((k, k) for k in range(len(x.split()))))
        for x in found.texts
    ]
    assert found.translated(same) == source


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ('a <b>b</b>', '<b>B</b> A'),
        ('a <b>b c</b>', '<b>C B</b> A'),
        ('<p>a <a href="x">b</a>!</p>', '<p><a href="x">B</a>! A</p>'),
        ('<i>a <b>b</b></i> c', 'C <i><b>B</b> A</i>'),
        ('<b><i>a</b> b</i>', '<i>B</i> <b><i>A</i></b>'),  # elements that overlap
        ('<b>a<p>b</b> c</p>', '<b>A<p></b>C <b>B</b></p>'),
        ('a <img> b', '<img> B A'),
        ('a<img> b', 'B A<img>'),
        ('a <code>x y</code> b', '<code>x y</code> B A'),
        ('<p>a b<br>c d</p>', '<p>B A<br>D C</p>'),
        ('<pre>a b\n c d</pre> e', '<pre>a b\n c d</pre> E'),
        ('<div>a\n  b</div>', '<div>B A</div>'),
        ('see <code>x</code>, too', 'TOO SEE <code>x</code>,'),
        ('a http://x.org/?a=1 <b>c</b>', '<b>C</b> http://x.org/?a=1 A'),
        ('a <b>{{b}}</b> c', 'C <b>{{b}}</b> A'),
        ('a <sup>[1]</sup> b', '<sup>[1]</sup> B A'),
    ],
)
def test_tags_follow_their_words(source, expected):
    assert reversed_words(source) == expected


@pytest.mark.parametrize(
    ('begin', 'end'),
    [
        ('{#x}', '{/x}'),
        ('<!-- begin -->', '<!-- end -->'),
        ('<!-- x -->', '<!-- /x -->'),
        ('<!-- start: x -->', '<!-- end of x -->'),
        ('<!-- wp:x {"y":1} -->', '<!-- /wp:x -->'),
        ('<!--StartFragment-->', '<!--EndFragment-->'),
        ('<!--[if !mso]><!-->', '<!--<![endif]-->'),
        ('<![if !supportLists]>', '<![endif]>'),
        ('<#if x gt 1>', '</#if>'),
        ('<0>', '</0>'),
    ],
)
def test_what_begins_and_ends_encloses_what_it_enclosed(begin, end):
    source = f'<p>a {begin}b <i>c</i>{end}. {begin}d{end}</p>'
    expected = f'<p>{begin}D{end} {begin}<i>C.</i> B{end} A</p>'
    assert reversed_words(source).replace('C</i>.', 'C.</i>') == expected


@pytest.mark.parametrize(
    ('begin', 'end'),
    [
        ('{% if x %}', '{% endif %}'),
        ('{%- for x in y -%}', '{%- endfor -%}'),
        ('{{#if x}}', '{{/if}}'),
        ('{{^x}}', '{{/x}}'),
        ('{{if .X}}', '{{end}}'),
        ('{#if x}', '{/if}'),
        ('{if $x > 1}', '{/if}'),
        ('*|IF:X|*', '*|END:IF|*'),
        ('<?php if ($x->y > 1) { ?>', '<?php } ?>'),
        ('<?php foreach ($x as $y): ?>', '<?php endforeach; ?>'),
        ('<% if x > 1 %>', '<% end %>'),
        ('<%= link_to x do |y| %>', '<% end %>'),
    ],
)
def test_what_a_template_may_leave_out_is_translated_apart(begin, end):
    source = f'<p>A {begin}B <i>C</i>{end} <img> D {begin}E{end}</p>'
    expected = f'<p>A {begin}<i>C</i> B{end} <img> D {begin}E{end}</p>'
    assert reversed_words(source) == expected


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        (
            'a b {% if x %}c d{% else %}e f{% endif %} g',
            'b A {% if x %}d C{% else %}f E{% endif %} g',
        ),
        ('a b {% else %}c d{% endif %}', 'b A {% else %}d C{% endif %}'),
        ('{% for x in y %}a b {% if x %}c{% endif %}{% endfor %}', None),
        ('<b>a {{#if x}}b c</b> d{{/if}}, e', '<b>a {{#if x}}</b>d <b>C B</b>{{/if}}, e'),
        ('a {% url "x" %} b', '{% url "x" %} B A'),
    ],
)
def test_branches_stay_in_their_order(source, expected):
    found = reversed_words(source)
    if expected is None:
        expected = '{% for x in y %}b A {% if x %}c{% endif %}{% endfor %}'
    assert found == expected


def test_a_part_of_a_sentence_is_no_sentence():
    found = HtmlDocument('See {{#x}}a car{{/x}} today')
    assert found.texts == ['See', 'a car', 'today']
    outputs = [Translation(x, 0.0, (), alignment=()) for x in ('Voir.', 'Une voiture.', 'Auj.')]
    assert found.translated(outputs) == 'Voir {{#x}}une voiture{{/x}} auj'


def test_no_mark_is_put_into_a_place_for_a_value():
    found = HtmlDocument('see <b>x</b> {{ name }}<img> y')
    pairs = ((2, 0), (1, 1), (4, 2), (1, 3), (5, 4))
    output = Translation('{{ name }} x y', 0.0, (), alignment=pairs)
    assert found.translated([output]) == '<b>{{ name }}</b><img> <b>x</b> y'


@pytest.mark.parametrize(
    'copied',
    [
        '<!-->',
        '<!--->',
        '<!-- <b>x --!>',
        '<!-- <b>x -- > x -->',
        '<!-- <b>x --->',
        '<! <b>',
        '</ <b>',
        '<?x <b>',
        '<?php $x->y > "<b>" ?>',
        '<% x > "<b>" %>',
        '<script>"</b>" <!-- <script> </script> --></script>',
        '<style><!-- <b> --></style>',
        '<xmp><b></xmp>',
        '<b title="</b>" x=\'>\' y=z/w></b>',
    ],
)
def test_what_is_no_text_ends_where_browsers_end_it(copied):
    found = HtmlDocument(f'<p>a {copied}</p>')
    assert found.texts == ['a']
    assert copied in found.translated([in_order('a', [0])])


def test_a_comment_without_an_end_ends_with_the_page():
    assert HtmlDocument('<p>a <!-- b <p>c').texts == ['a']


def test_tags_in_a_title_are_text():
    found = HtmlDocument('<title>the <b> tag</title>')
    assert found.texts == ['the <b> tag']
    assert reversed_words('<title>a &lt;b</title>') == '<title>&lt;B A</title>'


@pytest.mark.parametrize(
    'page', ['<?xml version="1.0"?>{}', '<!DOCTYPE html PUBLIC "XHTML 1.0">{}']
)
def test_empty_elements_of_xhtml_are_closed(page):
    source = page.format('<p>a <span id="x"/>b <a href="y"/>c</p><script src="z"/><p>d</p>')
    expected = page.format('<p><a href="y"/>C <span id="x"/>B A</p><script src="z"/><p>D</p>')
    assert reversed_words(source) == expected


def test_an_empty_anchor_is_closed_in_all_pages():
    assert reversed_words('<p><a id="x"/>a b</p>') == '<p><a id="x"/>B A</p>'


@pytest.mark.parametrize(
    ('reference', 'text'),
    [
        ('&#' + '9' * 5_000 + ';', '\ufffd'),
        ('&#' + '0' * 5_000 + '65;', 'A'),
        ('&#x' + 'f' * 5_000 + ';', '\ufffd'),
        ('&#xd800;', '\ufffd'),
    ],
)
def test_references_of_many_digits_are_read(reference, text):
    assert HtmlDocument(f'<p>a {reference} b</p>').texts == [f'a {text} b']


@pytest.mark.parametrize('copied', ['{% url a < b && c %}', '{%a&eacute;%}', '{%&eacute;a%}'])
def test_what_is_copied_is_written_as_it_was(copied):
    assert reversed_words(f'a &eacute; {copied} &lt; c') == f'C {copied} &lt; É A'


def test_punctuation_beside_a_mark_stays_outside():
    found = HtmlDocument('I see the (<b>sky</b>)!')
    output = Translation('VOIS (CIEL) !', 0.0, (), alignment=((1, 0), (3, 1), (3, 2)))
    assert found.translated([output]) == 'VOIS (<b>CIEL</b>) !'


@pytest.mark.parametrize(
    ('source', 'output', 'expected'),
    [
        ('the x<sub>1</sub>', 'le y1', 'le y<sub>1</sub>'),
        ('an un<b>believable</b>', 'un fou', 'un <b>fou</b>'),
        ('a <b>b</b>.', 'le c.', 'le <b>c</b>.'),
    ],
)
def test_a_mark_within_a_word_is_not_lost(source, output, expected):
    found = HtmlDocument(source)
    alignment = ((0, 0), (1, 1))
    assert found.translated([Translation(output, 0.0, (), alignment=alignment)]) == expected


def test_an_end_without_a_mark_stays_outside():
    found = HtmlDocument('a <b>red</b> car.')
    output = Translation('une voiture rouge.', 0.0, (), alignment=((0, 0), (2, 1), (1, 2)))
    assert found.translated([output]) == 'une voiture <b>rouge</b>.'


def test_conditional_comments_and_signs_of_lists_stay():
    source = (
        '<p><![if !supportLists]><span style="mso-list: Ignore">·<span>&nbsp; </span></span>'
        '<![endif]>a b</p>'
    )
    assert HtmlDocument(source).texts == ['a b']
    assert reversed_words(source) == source.replace('a b', 'B A')


def test_a_mark_whose_words_have_no_translation_marks_the_nearest_word():
    found = HtmlDocument('the <b>very</b> cat')
    output = Translation('le chat', 0.0, (), alignment=((0, 0), (2, 1)))
    assert '<b>' in found.translated([output])


def test_a_word_that_divides_the_words_of_a_mark_is_marked():
    found = HtmlDocument('a <b>b c</b>')
    output = Translation('B DE C', 0.0, (), alignment=((1, 0), (0, 1), (2, 2)))
    assert found.translated([output]) == '<b>B DE C</b>'


def test_an_empty_output_keeps_the_structure():
    found = HtmlDocument('<p>a <img> <b>b</b></p>')
    assert found.translated([Translation('', 0.0, (), alignment=())]) == '<p><img><b></b></p>'


def test_what_is_not_text_is_not_translated():
    source = (
        '<script>if (a < b) c()</script><style>b {}</style><textarea>a</textarea>'
        '<p class="x notranslate">b</p><svg><text>c</text></svg><code>d</code>'
    )
    found = HtmlDocument(source)
    assert found.texts == []
    assert found.translated([]) == source


@pytest.mark.parametrize(
    'copied',
    [
        'https://en.wikipedia.org/wiki/Mercury_(planet)',
        'http://a.org/b_(c)_(d)/e?f=(g)',
        'www.example.org',
        'tom@example.org',
        '@tom',
        '{{ user.name }}',
        '${total}',
        '%(name)s',
        '\u266a',
    ],
)
def test_placeholders_stay_in_the_sentence_and_are_no_text_of_their_own(copied):
    source = f'<p>See <b>{copied}</b> now.</p><p>{copied}</p>'
    found = HtmlDocument(source)
    assert found.texts == [f'See {copied} now.']
    words = range(len(found.texts[0].split()))
    output = Translation(found.texts[0], 0.0, (), alignment=tuple((k, k) for k in words))
    assert found.translated([output]) == source


def test_blanks_within_placeholders_stay():
    assert HtmlDocument('<p>a  b {{  "c  d" }}\n e</p>').texts == ['a b {{  "c  d" }} e']


@pytest.mark.parametrize(
    'source',
    [
        '<ul><li translate=no>x<li>a</ul><p>b</p>',
        '<ul><li translate=no>x <b>x</b></ul><p>a</p>b',
        '<p translate=no>x <p>a</p>b',
        '<p translate=no>x<div>a</div>b',
        '<table><tr><td translate=no>x<td>a<tr><td>b</table>',
        '<table><tr translate=no><td>x<tr><td>a</table>b',
        '<dl><dt class=notranslate>x<dd>a</dl>b',
        '<div translate=no><ul><li>x</ul><p>x</p></b></div>a<p>b</p>',
        '<div>a <span translate=no>x</div>b',
        '<li translate=no><ul><li>x<li>x</ul></li><li>a</li>b',
        '<div translate=no></p></ul><div>x</div>x<br>x</div>a <p>b</p>',
    ],
)
def test_what_is_copied_ends_where_browsers_end_it(source):
    found = HtmlDocument(source)
    assert found.texts == ['a', 'b']
    output = [Translation(x, 0.0, (), alignment=((0, 0),)) for x in found.texts]
    assert found.translated(output) == source


def test_outputs_are_escaped():
    found = HtmlDocument('a')
    output = Translation('<script>&', 0.0, (), alignment=((0, 0),))
    assert found.translated([output]) == '&lt;script&gt;&amp;'


def test_a_text_is_one_line_without_entities():
    assert HtmlDocument('<p>a&eacute;\n  <b>b</b>c &lt; d</p>e').texts == ['aé bc < d', 'e']


@pytest.mark.parametrize(
    'part',
    ['<', '<a ', '<!--', '<b>', '</', '<svg', '<b>a ', '<p>a', '&#', '<b>a</b> ', 'a<img> ', '{}'],
)
def test_hostile_html_takes_no_long_time(part):
    def work(source):
        found = HtmlDocument(source)
        found.translated([with_gaps(text) for text in found.texts])

    assert is_linear(work, lambda size: part * size, 1_500)


def test_html_with_too_many_tags_is_refused():
    with pytest.raises(UserError, match='more than 200,000 tags: divide it into several'):
        HtmlDocument('<' * 200_001)


def test_html_with_too_many_attributes_is_refused():
    with pytest.raises(UserError, match='more than 1,000,000 attributes: divide it into several'):
        HtmlDocument('<a' + ' b' * 1_000_001 + '>')


def test_deeply_nested_marks_keep_their_place():
    source = '<b>' * 100 + 'a' + '</b>' * 100
    assert reversed_words(source).count('<b>') == 100


DECLARATIONS = ['<![CDATA[{}> b]]>', '<!--{}>-->', '<?{}?>', '<![if {}]>', '<!x {}>']
DECLARATION = r'<!\[CDATA.*?\]\]>|<!--.*?-->|<\?.*?>|<!\[if.*?\]>|<!x.*?>'


def random_html(draw, depth=0):
    """Return well-formed HTML, each tag and declaration of which has a number of its own."""
    found = ''
    for _ in range(draw.randrange(1, 5)):
        kind = draw.randrange(10)
        name = 'p' if kind == 7 else draw.choice(['b', 'i', 'a'])
        number = draw.randrange(10**9)
        tag = f'{name} n="{number}"'
        if kind < 4:
            found += draw.choice('cat|big red|x&amp;y|(n)|!|,|é|1'.split('|')) + draw.choice(' \n|')
        elif kind < 8 and depth < 4:
            found += f'<{tag}>{random_html(draw, depth + 1)}</{name}>'
        elif kind < 9:
            found += f'<img {tag}>'
        else:
            found += draw.choice(DECLARATIONS).format(number)
    return found.replace('|', '')


def random_output(draw, text):
    words = [draw.choice(['un', 'deux.', '(x)', '!', "d'or", '<ok>']) for _ in text.split()]
    words = words[draw.randrange(3) :] + ['fin'] * draw.randrange(3)
    count = len(text.split())
    pairs = [(draw.randrange(count), t) for t in range(len(words)) if draw.random() < 0.85]
    return Translation(' '.join(words), 0.0, (), alignment=tuple(sorted(pairs)))


@pytest.mark.parametrize('seed', range(5))
def test_no_tag_is_lost_and_all_are_closed_whatever_the_alignment_is(seed):
    draw = random.Random(seed)
    for _ in range(100):
        source = random_html(draw)
        found = HtmlDocument(source)
        outputs = [random_output(draw, text) for text in found.texts]
        result = found.translated(outputs)
        declarations = [sorted(re.findall(DECLARATION, x)) for x in (source, result)]
        assert declarations[0] == declarations[1]
        source, result = (re.sub(DECLARATION, '', x) for x in (source, result))
        counts = [collections.Counter(re.findall('<[^/>]+>', x)) for x in (source, result)]
        assert not counts[0] - counts[1]
        assert all(tag[:3] in ('<b ', '<i ', '<a ') for tag in counts[1] - counts[0])
        opened = []
        for end, name in re.findall(r'<(/?)(\w+)', re.sub('<img.*?>', '', result)):
            assert not end or opened.pop() == name
            opened += [] if end else [name]
        assert not opened
        text = html.unescape(re.sub('<[^>]+>', '', result))
        for output in outputs:
            assert ''.join(output.text.split()) in ''.join(text.split())
