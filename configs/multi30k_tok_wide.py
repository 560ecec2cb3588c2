"""configs/multi30k_tok.py, wider and with weight decay: the start of multi30k_tok_regularised.py.

    python -m transformer_jax.main --config=configs/multi30k_tok_wide.py:FOLDER

FOLDER and the kind of BLEU are those of multi30k_tok.py. 6.5 M parameters, test BLEU 40.58: alone
it is no better than multi30k_tok.py. configs/README.md has all scores.
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
