"""Train a run, a release or an imported model on, with your own pairs. Copy this file, and run

    python -m transformer_jax.main --config=configs/fine_tune.py:FOLDER

FOLDER is the folder of the model, such as runs/opus. The sizes of the network are the model's.
my_corpus.py explains the fields below and more.
"""

from transformer_jax.errors import UserError
from transformer_jax.storage.pretrained import model_folder


def get_config(folder):
    model = model_folder(folder, 'the text after --config=FILE:')
    run = model.read_run()
    if run is None:
        raise UserError(f'{model} is no folder of a model: name one that translates.')
    config = run.config.to_config_dict()
    config.train.init_from = folder

    config.data.corpus = 'files'
    config.data.dataset = ''
    config.data.source_language = 'en'
    config.data.target_language = 'fr'
    config.data.train_source = 'my_corpus/train.en'
    config.data.train_target = 'my_corpus/train.fr'
    for side in ('source', 'target'):  # held out of the training files
        config.data[f'dev_{side}'] = config.data[f'test_{side}'] = config.data[f'{side}_column'] = (
            ''
        )
    config.data.max_length = 128
    config.data.tokens_per_batch = 4096

    # A tenth of the usual learning rate: the model forgets less of what it knows.
    config.optimizer.warmup_steps = 200
    config.optimizer.learning_rate_scale = 0.1
    config.train.steps = 2000
    config.train.checkpoint_every = 200
    config.train.eval_every = 200
    config.train.patience = 3
    config.train.keep_best = 3
    config.decode.average = 'best'
    config.decode.average_checkpoints = 3
    return config
