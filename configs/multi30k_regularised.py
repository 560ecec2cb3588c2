"""R-Drop, initialised from configs/multi30k.py after 4,000 steps.

    python -m transformer_jax.main --config=configs/multi30k.py:FOLDER \\
        --config.train.steps=4000 --workdir=runs/multi30k_4000
    python -m transformer_jax.main --config=configs/multi30k_regularised.py:FOLDER

FOLDER as for multi30k.py. The recipe of multi30k_tok_regularised.py. Not trained yet.
"""

import runpy
from pathlib import Path


def get_config(folder):
    beside = Path(__file__).with_name
    config = runpy.run_path(str(beside('multi30k.py')))['get_config'](folder)
    tokenised = runpy.run_path(str(beside('multi30k_tok_regularised.py')))['get_config'](folder)
    config.optimizer = tokenised.optimizer
    config.train = tokenised.train
    config.train.init_from = 'runs/multi30k_4000'
    return config
