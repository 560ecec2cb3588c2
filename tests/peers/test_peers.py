"""Our results against recorded results of peers, and against peers that are installed."""

import pytest
from peers import cases
from peers.cases import MARIAN, TORCH, assert_close, digest, our_results, our_translations


def ours(config):
    """Our digest; Marian's output bias is no parameter, so there is no gradient to compare."""
    results = our_results(config)
    results['gradient'].pop('output_bias', None)
    return digest(results)


def theirs(name, config):
    """The digest of a peer, or a skip."""
    pytest.importorskip('torch')
    if name in MARIAN:
        pytest.importorskip('transformers')
        from peers import marian_peer as peer
    else:
        from peers import torch_peer as peer
    return digest(peer.results(config))


@pytest.mark.parametrize(('name', 'config'), (TORCH | MARIAN).items())
def test_outputs_loss_and_gradients_are_those_recorded(name, config):
    assert_close(ours(config), cases.recorded()[name])


@pytest.mark.parametrize(('name', 'config'), (TORCH | MARIAN).items())
def test_outputs_loss_and_gradients_are_those_of_the_peer(name, config):
    assert_close(ours(config), theirs(name, config))


def test_beam_search_finds_the_tokens_recorded():
    found = our_translations(MARIAN['marian_swish'], cases.trained_weights())
    assert found == cases.recorded()['translations']
    assert len({len(tokens) for tokens in found}) > 3


def test_beam_search_finds_the_tokens_of_marian():
    pytest.importorskip('transformers')
    from peers import marian_peer

    config, params = MARIAN['marian_swish'], cases.trained_weights()
    assert our_translations(config, params) == marian_peer.translations(config, params)
