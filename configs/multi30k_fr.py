"""configs/multi30k.py into French: raw cased text, 29,000 image captions.

    python -m transformer_jax.main --config=configs/multi30k_fr.py:FOLDER

FOLDER as there; it holds the .fr files as well.

5,992,448 parameters, 8,000 steps as there, 29 minutes with all evaluations:

                                test BLEU     chrF   nats          dev BLEU, nats
  8,000 steps                   60.48 ± 1.65  76.00  0.956  2.170  58.73     1.061  2.262
  4,000 steps, another machine  57.41         73.87         2.259

Dev BLEU by greedy search (sacreBLEU) after 500, 1000, 1500, ... steps: 12.6 34.8 42.7 47.9 48.5
51.8 52.7 53.2 54.3 54.9 55.2 55.6 56.1 56.2 56.3 56.2.
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
