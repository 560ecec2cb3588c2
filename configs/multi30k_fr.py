"""configs/multi30k.py into French: raw cased text, 29,000 image captions.

    python -m transformer_jax.main --config=configs/multi30k_fr.py:FOLDER

FOLDER as there; it holds the .fr files as well.

5,992,448 parameters. After 4,000 of the 8,000 steps, the mean of the last 10 checkpoints:
test_2016_flickr BLEU 57.41, chrF 73.87, 2.259 nats a token with label smoothing
(nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0), with --config.model.dtype=bfloat16 on
2 cores of a Xeon with AMX (2026-11-22, JAX 0.10.2), 0.34 s a step: 23 minutes and the evaluations.
One seed.

Dev BLEU by greedy search (sacreBLEU) after 500, 1000, 1500, ... steps: 12.4 34.2 42.4 48.6 48.9
51.5 52.2 53.5.
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
