"""R-Drop, begun from what configs/multi30k.py has learned after 4,000 steps.

    python -m transformer_jax.main --config=configs/multi30k.py:FOLDER --config.train.steps=4000
    python -m transformer_jax.main --config=configs/multi30k_regularised.py:FOLDER

FOLDER as there. The recipe of multi30k_tok_regularised.py. Not trained yet.
"""

import runpy
from pathlib import Path


def get_config(folder):
    plain = runpy.run_path(str(Path(__file__).with_name('multi30k.py')))
    config = plain['get_config'](folder)
    config.optimizer.r_drop = 5.0
    config.optimizer.warmup_steps = 500
    config.optimizer.learning_rate_scale = 0.3  # peak 0.00084
    config.train.steps = 25_000
    config.train.init_from = 'runs/multi30k'
    return config
