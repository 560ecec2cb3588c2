"""configs/multi30k_tok.py, wider and with weight decay: multi30k_tok_regularised.py begins from it.

    python -m transformer_jax.main --config=configs/multi30k_tok_wide.py:FOLDER

FOLDER as there. 6.5 M parameters; 8,000 steps of 0.65 s on 2 CPU cores, with batches half as
large. The BLEU of multi30k_tok.py, the mean of the last 10 checkpoints: dev 41.27, test 40.58 ±
1.60; 1.623 and 1.615 nats a token. By itself it is no better than multi30k_tok.py (dev 40.96, test
41.24, 1.624 and 1.605): it fits the training set so well (1.04, with dropout) that there is room to
regularise.

After 4,000 steps, from which multi30k_tok_regularised.py begins, in bfloat16 (2 cores of a Xeon
with AMX, 2026-11-22, JAX 0.10.2): dev 39.58, test 38.86 (sacreBLEU of the tokens), 1.745 and 1.714
nats a token; with --config.train.seed=1 dev 39.98, test 39.15, 1.742 and 1.702. On 2 cores of an
AMD EPYC with AVX-512 (2026-11-23) seeds 0, 1 and 2 have 38.40, 39.02 and 39.68 on test, 1.715,
1.699 and 1.705.

Dev BLEU by greedy search (sacreBLEU) after 500, 1000, 1500, ... steps: 10.4 23.2 30.3 32.8 34.4
36.6 35.0 37.0 37.7 38.2 38.3 38.9 38.3 39.2 39.0 38.9.
"""

import runpy
from pathlib import Path


def get_config(folder):
    plain = runpy.run_path(str(Path(__file__).with_name('multi30k_tok.py')))
    config = plain['get_config'](folder)
    config.model.num_layers = 3
    config.model.d_model = 256
    config.model.d_ff = 512
    config.data.tokens_per_batch = 2048
    config.optimizer.weight_decay = 0.2
    config.optimizer.warmup_steps = 800
    config.optimizer.learning_rate_scale = 0.5  # peak 0.0011
    return config
