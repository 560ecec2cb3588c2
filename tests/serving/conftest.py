import copy

import pytest
from fake_translator import FakeTranslator
from starlette.testclient import TestClient

from transformer_jax.serving.app import Server
from transformer_jax.serving.batcher import Batcher
from transformer_jax.serving.http.access import Access
from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.metrics import Metrics


@pytest.fixture(scope='session', autouse=True)
def _language_model_read_once():
    """Reading the model that knows languages would take most of a test."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageIdentifier, 'from_model_file', lambda *_, **__: copy.copy(model))
        yield


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
