"""Pairs are seen in other spellings at their rates, the same at the same step."""

import dataclasses
import itertools

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data.batching.loader import training_batches
from transformer_jax.data.cleaning.augment import RespeltCorpus, read_augment
from transformer_jax.data.cleaning.letters import characters
from transformer_jax.data.prepare import prepare
from transformer_jax.errors import UserError


class Few:
    def pairs(self, split):
        yield '<2fr> the teacher isn’t reading a wonderful book', 'le maître ne lit pas un livre'
        yield 'a b', 'c'

    def fingerprint(self, split):
        return 'few'


class One(Few):
    def __init__(self, source, target='x'):
        self.pair = source, target

    def pairs(self, split):
        yield self.pair


def spelt(name, corpus=None):
    return list(RespeltCorpus(corpus or Few(), name).pairs('train'))


def test_spellings():
    assert spelt('upper')[0] == (
        '<2fr> THE TEACHER ISN’T READING A WONDERFUL BOOK',
        'LE MAÎTRE NE LIT PAS UN LIVRE',
    )
    assert spelt('title')[0][0] == '<2fr> The Teacher Isn’t Reading A Wonderful Book'
    (source, target), short = spelt('typos')
    plain = next(Few().pairs('train'))[0].split()
    changed = [word for word, before in zip(source.split(), plain, strict=True) if word != before]
    assert len(changed) == 1 and target == 'le maître ne lit pas un livre'
    assert short == ('a b', 'c')
    assert spelt('typos') == [(source, target), short]


@pytest.mark.parametrize('name', ['upper', 'title', 'typos'])
@pytest.mark.parametrize('code', ['>>fra<<', '<2fr>', '<2fr> >>zho_Hans<<'])
def test_language_codes_keep_their_spelling_in_every_spelling(name, code):
    [(source, target)] = spelt(name, One(f'{code} where is my key', f'{code} mot <2de> Wort'))
    assert source.startswith(f'{code} ') and source != f'{code} where is my key'
    assert target.startswith(f'{code} ') and '<2de>' in target


@pytest.mark.parametrize(
    ('word', 'letters'),
    [
        ('विद्यार्थियों', 'वि द् या र् थि यों'),
        ('மாணவர்கள்', 'மா ண வ ர் க ள்'),
        ('ผู้เรียน', 'ผู้ เ รี ย น'),
        ('مُدَرِّسَة', 'مُ دَ رِّ سَ ة'),
        ('e\u0301le\u0300ve', 'e\u0301 l e\u0300 v e'),
    ],
)
def test_typos_keep_the_marks_of_a_letter_with_it(word, letters):
    letters = letters.split()
    for k in range(20):  # another text draws another typo
        [(source, _)] = spelt('typos', One(f'{word} {k}'))
        found = characters(source.split()[0])
        assert found != letters
        assert {*found} <= {*letters} and abs(len(found) - len(letters)) <= 1


def test_a_word_that_begins_with_a_decomposed_letter_is_capitalised_with_its_accent():
    assert spelt('title', One('e\u0301te\u0301'))[0][0] == 'E\u0301te\u0301'


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('uper=0.1', "'uper', which is none of upper, title, typos: did you mean 'upper'"),
        ('upper', 'write upper=RATE once'),
        ('upper=2', 'write upper=RATE once'),
        ('upper=0.1 upper=0.2', 'write upper=RATE once'),
        ('upper=0.9 typos=0.2', 'rates of more than 1 together'),
    ],
)
def test_mistakes_are_named(text, problem):
    with pytest.raises(UserError, match=problem):
        read_augment(DataConfig(augment=text))


@pytest.fixture
def config(tmp_path):
    words = [f'{a}{b}' for a in 'bcdfg' for b in ('ook', 'all', 'ench', 'ird')]
    for side in ('en', 'fr'):
        text = ''.join(f'the {a} and the {b}\n' for a in words for b in words)
        # Letters that are pieces, and a sentence as long as the others are in upper case.
        text += 'ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz\n'
        (tmp_path / f'train.{side}').write_text(text)
    return DataConfig(
        corpus='files',
        train_source=str(tmp_path / 'train.en'),
        train_target=str(tmp_path / 'train.fr'),
        dev_size=2,
        test_size=2,
        vocab_size=330,
        max_length=60,
        tokens_per_batch=480,
        num_buckets=2,
        cache_dir=str(tmp_path / 'cache'),
        augment='upper=0.2 typos=0.3',
    )


def texts(data, count, start=0):
    """Return the pairs of texts of each of some steps."""
    sides = {'source': data.vocabulary.source, 'target': data.vocabulary.target}
    steps = []
    for _, batch in itertools.islice(training_batches(data.store, data.plan, start), count):
        both = ([sides[name].decode(row) for row in batch[name]] for name in sides)
        steps.append([pair for pair in zip(*both, strict=True) if pair[0]])
    return steps


def test_pairs_are_drawn_at_their_rates_anew_in_each_epoch(config):
    data = prepare(config)
    steps = [data.plan.steps_of(k) for k in (1, 2)]
    shown = texts(data, steps[1])
    epochs = [list(itertools.chain(*part)) for part in (shown[: steps[0]], shown[steps[0] :])]
    for pairs in epochs:
        assert len(pairs) == 397
        upper = [pair for pair in pairs if pair[0].isupper()]
        assert all(source == target for source, target in upper)
        assert len(upper) / 397 == pytest.approx(0.2, abs=0.06)
        typos = [pair for pair in pairs if pair[0] != pair[1]]
        assert len(typos) / 397 == pytest.approx(0.3, abs=0.07)
        assert len({target.lower() for _, target in pairs}) == 397
    assert set(epochs[0]) != set(epochs[1])
    assert data.plan.pairs == 397
    for start in (5, steps[0] - 1, steps[0] + 2):
        assert texts(prepare(config), 2, start) == shown[start : start + 2]


def test_older_rules_of_spelling_have_another_fingerprint(config, monkeypatch):
    plain = dataclasses.replace(config, augment='')
    now = [prepare(one).fingerprint for one in (config, plain)]
    monkeypatch.setattr('transformer_jax.data.cleaning.augment._RULES', 1)
    then = [prepare(one).fingerprint for one in (config, plain)]
    assert then[0] != now[0] and then[1] == now[1]


def test_other_spellings_are_also_segmented_anew(config):
    sampled = dataclasses.replace(
        config, subword_sampling=0.2, max_length=120, tokens_per_batch=960
    )
    plain = prepare(dataclasses.replace(sampled, augment=''))
    data = prepare(sampled)
    assert (len(plain.store), len(data.store)) == (397, 3 * 397)
    batches = training_batches(data.store, data.plan, 0, subword_sampler=data.subword_sampler)
    _, batch = next(batches)
    assert any(data.vocabulary.source.decode(row).isupper() for row in batch['source'])
