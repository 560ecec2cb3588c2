"""configs/multi30k_regularised.py into French, begun from what multi30k_fr.py has learned.

    python -m transformer_jax.main --config=configs/multi30k_fr.py:FOLDER \\
        --config.train.steps=4000 --workdir=runs/multi30k_fr_4000
    python -m transformer_jax.main --config=configs/multi30k_fr_regularised.py:FOLDER

FOLDER as there. Stopped after 3,757 steps with optimizer.learning_rate_scale=0.3 and warmup_steps=
500, with which R-Drop learns more slowly: the test set has not been looked at. Means of the last 10
checkpoints on dev, with --config.model.dtype=bfloat16: BLEU (nrefs:1|case:mixed|eff:no|tok:13a|
smooth:exp), and that of multi30k_tok_regularised.py, on lowercased text split at spaces; nats a
token, without and with label smoothing:

                                 dev BLEU  split  nats
  multi30k_fr.py, step 4,000     55.45     53.95  1.144  2.345
  R-Drop, steps 2,900 to 3,757   56.49     54.88  1.087  2.223

Dev BLEU by greedy search is 55.0 for the mean it begins from; for single checkpoints after 500,
1000, 1500, ... steps it is 50.5 50.7 53.0 53.6 54.4 55.3 54.7.
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
