"""The demo: the embedded English-French phrasebook, minutes on a laptop.

    bash launch/demo.sh

915,456 parameters and 60,000 sentences of a small grammar; dev and test have other sentences. Test
BLEU 99.26 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0).
"""

from transformer_jax.config import Config


def get_config():
    config = Config().to_config_dict()

    config.model.num_layers = 2
    config.model.d_model = 128
    config.model.d_ff = 256
    config.model.num_heads = 4

    config.data.corpus = 'phrasebook'
    config.data.source_language = 'en'
    config.data.target_language = 'fr'
    config.data.train_size = 60_000
    config.data.dev_size = 300
    config.data.test_size = 500
    # Enough pieces to give each word form of this small language its own.
    config.data.vocab_size = 2000
    config.data.max_length = 48
    config.data.tokens_per_batch = 2048
    config.data.num_buckets = 4  # each needs a compiled program

    config.optimizer.warmup_steps = 300
    config.optimizer.learning_rate_scale = 1.0

    config.train.steps = 1000
    config.train.log_every = 50
    config.train.checkpoint_every = 100
    config.train.eval_every = 500
    return config
