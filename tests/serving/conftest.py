import pytest
from fake_translator import FakeTranslator
from starlette.testclient import TestClient

from transformer_jax.serving.access import Access
from transformer_jax.serving.app import Server
from transformer_jax.serving.batcher import Batcher
from transformer_jax.serving.limits import Limits
from transformer_jax.serving.metrics import Metrics


@pytest.fixture
def translators():
    return {
        ('en', 'fr'): FakeTranslator(),
        ('en', 'de'): FakeTranslator('en', 'de'),
        ('fr', 'en'): FakeTranslator('fr', 'en'),
    }


@pytest.fixture
def serving(translators):
    """Call it to get a client of a server."""
    batchers = []

    def serve(limits=None, access=None, origins=(), public_url='', **options):
        metrics = Metrics()
        batcher = Batcher(translators, observe=metrics.observe_batch, **options)
        batcher.start()
        batchers.append(batcher)
        server = Server(batcher, limits or Limits(), access or Access(), metrics)
        client = TestClient(server.application(origins, public_url), raise_server_exceptions=False)
        client.batcher = batcher
        return client

    yield serve
    for batcher in batchers:
        batcher.end()
