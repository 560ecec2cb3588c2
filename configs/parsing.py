"""English constituency parsing on the Wall Street Journal, as in section 6.3 of the paper.

    python -m transformer_jax.main --config=configs/parsing.py:FOLDER

The treebank is LDC99T42, Penn Treebank 3, which the Linguistic Data Consortium sells. FOLDER holds
three files made of its combined files: sections 2 to 21 train, 22 is dev, 23 is test.

    cat wsj/0[2-9]/*.mrg wsj/1?/*.mrg wsj/2[01]/*.mrg > FOLDER/train.mrg
    cat wsj/22/*.mrg > FOLDER/dev.mrg; cat wsj/23/*.mrg > FOLDER/test.mrg

The paper's model has 4 layers of width 1024 and 16,000 pieces, and reaches F1 91.3 on section 23
with a beam of 21 and a length penalty of 0.3. Its authors chose dropout and learning rate on
section 22 and do not print them; all else is as in base. Dropout of 0.2 and warm-up of 16,000 steps
are those of tensor2tensor. It has not been trained here, because the treebank is not free.
"""

from transformer_jax.config import Config


def get_config(folder):
    config = Config().to_config_dict()

    config.model.num_layers = 4
    config.model.d_model = 1024
    config.model.d_ff = 2048
    config.model.num_heads = 8
    config.model.dropout_rate = 0.2
    config.model.attention_dropout_rate = 0.2
    config.model.tied_embeddings = 'decoder'

    config.data.corpus = 'trees'
    config.data.source_language = 'en'
    config.data.target_language = 'en'
    for split in ('train', 'dev', 'test'):
        config.data[f'{split}_source'] = f'{folder}/{split}.mrg'
    # Words are pieces of BPE; each symbol of a tree is one of its own.
    config.data.shared_vocabulary = False
    config.data.target_vocabulary_type = 'word'
    config.data.vocab_size = 16_000
    config.data.max_length = 512
    config.data.tokens_per_batch = 8192

    config.optimizer.warmup_steps = 16_000

    config.train.steps = 100_000
    config.train.checkpoint_every = 1000
    config.train.eval_every = 5000

    config.decode.beam_size = 21
    config.decode.length_penalty = 0.3
    config.decode.max_extra_length = 300
    return config
