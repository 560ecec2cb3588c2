"""configs/multi30k_tok.py with what small data need: R-Drop and BPE-dropout.

    python -m transformer_jax.main --config=configs/multi30k_tok_regularised.py:FOLDER

FOLDER as there. A step takes a little more than twice as long.
"""

import runpy
from pathlib import Path


def get_config(folder):
    plain = runpy.run_path(str(Path(__file__).with_name('multi30k_tok.py')))
    config = plain['get_config'](folder)
    config.optimizer.r_drop = 5.0
    config.data.subword_sampling = 0.1
    return config
