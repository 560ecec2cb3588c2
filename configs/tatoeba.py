"""Tatoeba English to French: 151,000 everyday sentences, many with several translations.

    python -m transformer_jax.main --config=configs/tatoeba.py:FOLDER

FOLDER holds tatoeba_en-fr/ with train, dev and test in .en and .fr, one sentence per line. Train
(151,229 pairs) and dev (1,500) are from manythings.org/anki (Tatoeba, CC-BY 2.0), test (4,000) is
from Tatoeba-Challenge v2021-08-07. No training pair shares a side with test, or its English side
with dev. How train and dev were split is not published, so the scores cannot be compared with
others.

7,819,264 parameters. With --config.model.dtype=bfloat16: test BLEU 38.76 ± 1.17, chrF 57.66 ± 0.96,
dev BLEU 50.79 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0).
"""

from transformer_jax.config import Config


def get_config(folder):
    config = Config().to_config_dict()
    data = f'{folder}/tatoeba_en-fr'

    config.model.num_layers = 4
    config.model.d_model = 256
    config.model.d_ff = 512
    config.model.num_heads = 4

    config.data.corpus = 'files'
    config.data.target_language = 'fr'
    for split in ('train', 'dev', 'test'):
        config.data[f'{split}_source'] = f'{data}/{split}.en'
        config.data[f'{split}_target'] = f'{data}/{split}.fr'
    config.data.vocab_size = 10_000
    config.data.max_length = 100
    # Most sentences are short, so few shapes suffice.
    config.data.num_buckets = 12
    config.data.tokens_per_batch = 2048

    config.optimizer.warmup_steps = 1000
    config.optimizer.learning_rate_scale = 0.5  # peak 0.001

    config.train.steps = 20_000
    config.train.eval_every = 1000
    config.train.checkpoint_every = 250
    return config
