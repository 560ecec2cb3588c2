"""configs/multi30k_regularised.py into French: R-Drop, begun from multi30k_fr.py.

    python -m transformer_jax.main --config=configs/multi30k_fr.py:FOLDER \\
        --config.train.steps=4000 --workdir=runs/multi30k_fr_4000
    python -m transformer_jax.main --config=configs/multi30k_fr_regularised.py:FOLDER

FOLDER is that of multi30k_fr.py. No run has been finished: configs/lab_notes.md has the dev scores
of an earlier recipe.
"""

import runpy
from pathlib import Path


def get_config(folder):
    beside = Path(__file__).with_name
    config = runpy.run_path(str(beside('multi30k_fr.py')))['get_config'](folder)
    german = runpy.run_path(str(beside('multi30k_regularised.py')))['get_config'](folder)
    config.optimizer = german.optimizer
    config.train = german.train
    config.train.init_from = 'runs/multi30k_fr_4000'
    return config
