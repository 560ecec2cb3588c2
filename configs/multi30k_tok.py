"""Multi30k English to German as in published scores: lowercased, tokenised, a tiny model.

    python -m transformer_jax.main --config=configs/multi30k_tok.py:FOLDER

FOLDER holds multi30k_tok/ with train, val and test_2016_flickr in .en and .de: lowercased,
normalised and tokenised by Moses, one sentence a line. They are the files of data/task1/tok in
github.com/multi30k/dataset (train.lc.norm.tok.en, for example) under shorter names.

The recipe of Wu et al. (2021, "Good for Misconceived Reasons", Transformer-Tiny), with smaller
batches. Test BLEU 41.24, on lowercased tokens. configs/README.md has all scores and earlier runs.
"""

from transformer_jax.config import Config


def get_config(folder):
    config = Config().to_config_dict()
    data = f'{folder}/multi30k_tok'

    config.model.num_layers = 4
    config.model.d_model = 128
    config.model.d_ff = 256
    config.model.num_heads = 4
    config.model.dropout_rate = 0.3
    # With the default, 1, it hardly learns to align at this learning rate.
    config.model.attention_gain = 0.7071

    config.data.corpus = 'files'
    config.data.target_language = 'de'
    config.data.train_source = f'{data}/train.en'
    config.data.train_target = f'{data}/train.de'
    config.data.dev_source = f'{data}/val.en'
    config.data.dev_target = f'{data}/val.de'
    config.data.test_source = f'{data}/test_2016_flickr.en'
    config.data.test_target = f'{data}/test_2016_flickr.de'
    config.data.normalization = 'identity'  # the files are normalised already
    config.data.vocab_size = 10_000
    config.data.max_length = 100
    config.data.num_buckets = 12
    config.data.tokens_per_batch = 4096

    config.optimizer.warmup_steps = 2000
    config.optimizer.learning_rate_scale = 1.77  # peak 0.0035

    config.train.steps = 8000
    config.train.eval_every = 500
    config.train.checkpoint_every = 100
    config.train.keep = 10
    config.decode.beam_size = 5
    config.decode.length_penalty = 1.0
    config.decode.average_checkpoints = 10
    return config
