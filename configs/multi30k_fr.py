"""configs/multi30k.py into French: raw cased text, 29,000 image captions.

    python -m transformer_jax.main --config=configs/multi30k_fr.py:FOLDER

FOLDER is that of multi30k.py, and also holds the .fr files.

5,992,448 parameters, test BLEU 60.48. configs/README.md has all scores.
"""

import runpy
from pathlib import Path


def get_config(folder):
    german = runpy.run_path(str(Path(__file__).with_name('multi30k.py')))
    config = german['get_config'](folder)
    config.data.target_language = 'fr'
    for field in ('train_target', 'dev_target', 'test_target'):
        config.data[field] = config.data[field].removesuffix('.de') + '.fr'
    return config
