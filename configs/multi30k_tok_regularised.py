"""R-Drop, begun from what configs/multi30k_tok_wide.py has learned.

    python -m transformer_jax.main --config=configs/multi30k_tok_wide.py:FOLDER
    python -m transformer_jax.main --config=configs/multi30k_tok_regularised.py:FOLDER

FOLDER, and the BLEU that is meant, as in multi30k_tok.py. 5,046 of the 12,000 steps have been
taken, of 1.2 s on 2 CPU cores; the test set has not been looked at. One seed; means of the last 10
checkpoints there were:

                                   dev BLEU  nats a token, without and with label smoothing
  multi30k_tok_wide.py             41.27     1.623  2.785
  R-Drop, steps 1,200 to 2,100     41.44     1.595  2.695
  R-Drop, steps 2,300 to 3,200     42.14     1.562  2.660
  R-Drop, steps 4,200 to 5,046     42.46     1.532  2.631

R-Drop takes long. Dev BLEU by greedy search (sacreBLEU) of the mean it begins from is 39.6; of
single checkpoints after 500, 1000, 1500, ... steps it is
  39.2 39.1 40.0 39.4 39.7 40.3 40.2 40.6 40.8 40.8

Begun earlier and with another learning rate, in bfloat16 on CPUs with AMX (0.34 s a step before
R-Drop, 0.75 with it; dev BLEU of means of the last 10, and nats as above):

  multi30k_tok_wide.py stopped at step 4,000         39.58  1.745  2.890
  R-Drop, peak 0.00084, steps 2,600 to 3,442         41.17  1.624  2.710
                                 35.9 36.7 38.0 37.9 38.8 39.5

All other runs so far, likewise from step 500 on, of d_model 128 and 4 layers as in multi30k_tok.py:

  weight decay 0.1               3.8 19.1 28.5 32.2 34.6 36.2 36.8 38.2 38.4 36.6 38.2 38.9 38.7
                                40.1 38.9 39.0           8,000 steps of 0.7 s: dev 41.70, test
                                                         40.69 ± 1.64, 1.563 and 1.548 nats
  the plain model                3.7 18.2 27.4 31.7 35.1 35.5 36.6 37.5 38.9 37.8 38.8 38.2 38.0
                                39.1 39.6 39.4           8,000 steps of 0.6 s: dev 40.96, test
                                                         41.24 ± 1.67, 1.624 and 1.605 nats
  BPE-dropout 0.1                3.7  7.0 12.5 15.8 21.4 given up after 2,518 steps of 0.65 s
  BPE-dropout 0.1, R-Drop 5      2.7  3.4  8.4 11.8      given up after 2,471 steps of 1.3 s

From weight decay 0.1 after its 8,000 steps:

  R-Drop 5, weight decay 0.1    38.4 38.4                a peak of 0.002 at 500 steps; put off after
                                                         1,041 of 1.5 s, the mean at dev 40.97,
                                                         1.617 nats, 2.706 with smoothing (2.721
                                                         before)

From the plain model after its 8,000 steps:

  BPE-dropout 0.1               37.3 37.3                a peak of 0.00175 at 500 steps; given up
                                                         after 1,052 of 0.7 s
  R-Drop 5                      37.7                     Adam and schedule went on (r_drop set in
                                                         config.json); given up after 634 of 1.3 s
"""

import runpy
from pathlib import Path


def get_config(folder):
    wide = runpy.run_path(str(Path(__file__).with_name('multi30k_tok_wide.py')))
    config = wide['get_config'](folder)
    config.optimizer.r_drop = 5.0
    config.optimizer.warmup_steps = 500
    config.optimizer.learning_rate_scale = 0.2147  # peak 0.0006
    config.train.steps = 12_000
    config.train.init_from = 'runs/multi30k_tok_wide'
    return config
