"""What a server counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from transformer_jax.runtime.compile_counter import CompileCounter

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'


class Metrics:
    """Counters of one server."""

    def __init__(self):
        """Count from zero."""
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            'translate_requests',
            'Requests by path and status.',
            ['path', 'status'],
            registry=registry,
        )
        self.seconds = Histogram(
            'translate_request_seconds',
            'Seconds of each request.',
            ['path'],
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge('translate_in_flight', 'Requests being answered.', registry=registry)
        self.waiting = Gauge('translate_queue', 'Sentences that wait.', registry=registry)
        self.characters = Counter(
            'translate_characters', 'Characters of the texts.', registry=registry
        )
        self.tokens = Counter('translate_tokens', 'Tokens of the outputs.', registry=registry)
        self.batch = Histogram(
            'translate_batch_sentences',
            'Sentences of each batch.',
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )
        self._compilations = Counter(
            'translate_compilations', 'Programs compiled since the port opened.', registry=registry
        )
        self._compiled = CompileCounter()

    def opened(self) -> None:
        """Count compilations from now on."""
        self._compiled.new()

    def observe_batch(self, sentences: int, tokens: int) -> None:
        """Count a batch."""
        self.batch.observe(sentences)
        self.tokens.inc(tokens)

    def text(self, waiting: int) -> bytes:
        """Return the counters in the format of Prometheus.

        Args:
          waiting: sentences that wait now.
        """
        self.waiting.set(waiting)
        self._compilations.inc(self._compiled.new())
        return generate_latest(self._registry)
