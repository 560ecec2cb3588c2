"""The sentence pairs that a benchmark measures with: the corpus of a config, or synthetic pairs."""

import dataclasses

import jax
import numpy as np

from transformer_jax.config import Config, VocabSizes
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.subword_sampling import SubwordSampler
from transformer_jax.data.batching.token_store import TokenStore, sentences_from
from transformer_jax.data.prepare import prepare
from transformer_jax.sharding import make_mesh
from transformer_jax.training.checks import resume_checks

_SENTENCES = 1024  # to decode


@dataclasses.dataclass(frozen=True)
class Workload:
    """A config with its data and devices.

    Attributes:
      config: config of the run.
      mesh: devices of the run.
      vocab_sizes: V of each side.
      store: tokenised pairs.
      plan: batch plan of the pairs.
      subword_sampler: samples the pieces of each sentence again in each epoch; None if off.
      sentences: token ids of sentences to translate, int32 [length] with EOS.
    """

    config: Config
    mesh: jax.sharding.Mesh
    vocab_sizes: VocabSizes
    store: TokenStore
    plan: BatchPlan
    subword_sampler: SubwordSampler | None
    sentences: list[np.ndarray]


def make_workload(config: Config, synthetic: int | None) -> Workload:
    """Prepare the corpus of the config, or this many synthetic pairs."""
    mesh = make_mesh(config.mesh)
    if synthetic is None:
        data = prepare(config.data, resume_checks.inherited_vocabulary(config))
        sentences = data.vocabulary.source.encode([source for source, _ in data.dev[:_SENTENCES]])
        return Workload(
            config,
            mesh,
            data.vocabulary.sizes,
            data.store,
            data.plan,
            data.subword_sampler,
            sentences,
        )
    store = synthetic_store(synthetic, config)
    plan = BatchPlan(
        *store.lengths,
        max_length=config.data.max_length,
        tokens_per_batch=config.data.tokens_per_batch,
        num_buckets=config.data.num_buckets,
        sentences_per_batch=config.data.sentences_per_batch,
        seed=config.data.seed,
        packing=config.data.packing,
    )
    sentences = [store.source.sentence(k) for k in range(min(_SENTENCES, len(store)))]
    sizes = VocabSizes.of(config.data.vocab_size)
    return Workload(config, mesh, sizes, store, plan, None, sentences)


def synthetic_store(pairs: int, config: Config) -> TokenStore:
    """Return random pairs of log-normal lengths as in WMT news: median 26, mean 30 tokens."""
    random = np.random.RandomState(0)
    source = np.clip(np.exp(random.normal(np.log(26), 0.55, pairs)), 2, config.data.max_length)
    ratio = np.exp(random.normal(0.0, 0.17, pairs))  # target tokens for each source token
    target = np.clip(source * ratio, 2, config.data.max_length)
    dtype = np.uint16 if config.data.vocab_size <= 1 << 16 else np.int32

    def side(lengths: np.ndarray) -> list[np.ndarray]:
        return [random.randint(1, config.data.vocab_size, n).astype(dtype) for n in lengths]

    return TokenStore(
        sentences_from(side(source.astype(int))), sentences_from(side(target.astype(int)))
    )
