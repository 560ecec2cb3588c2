"""Train on your own two files. Copy this file, change what is below, and start

    python -m transformer_jax.main --config=configs/my_corpus.py

The run is kept in runs/my_corpus. Stop it whenever you like: the same command resumes it.
The files of transformer_jax/config/ explain every field.
"""

from transformer_jax.config import Config


def get_config():
    config = Config().to_config_dict()  # starts from the paper's base model

    # --- Your sentences -------------------------------------------------------------------------
    # Two text files in UTF-8, a sentence a line; line 17 of one translates line 17 of the other.
    # They may be compressed (.gz, .xz). A single table works too: name it as train_source alone
    # (.tsv, .csv or .jsonl), and leave train_target empty. Its columns are named as the languages,
    # 'en' and 'fr', in .tsv and .csv by the first row, which has to be there; other names go into
    # source_column and target_column.
    # Both languages may be the same one, to correct or to simplify sentences.
    config.data.corpus = 'files'
    config.data.source_language = 'en'
    config.data.target_language = 'fr'
    config.data.train_source = 'my_corpus/train.en'
    config.data.train_target = 'my_corpus/train.fr'
    # With files of your own for dev and test, name them here. Left empty, as many pairs as below
    # are held out of the training files, and none of their source sentences is trained on.
    config.data.dev_source = ''
    config.data.dev_target = ''
    config.data.test_source = ''
    config.data.test_target = ''
    config.data.dev_size = 1000
    config.data.test_size = 1000

    # --- The vocabulary, shared by both languages -----------------------------------------------
    # About 4,000 pieces for 10,000 pairs, 10,000 for 100,000 pairs, 32,000 for millions. No
    # character is unknown: those without a piece are written as bytes.
    config.data.vocab_size = 10_000
    # SentencePiece's rule for the characters of both sides: this one makes full-width commas narrow
    # and '…' three dots, in what is learned as well. 'identity' leaves all as it is: a message says
    # where that matters, as for Chinese, Japanese or Thai.
    config.data.normalization = 'nmt_nfkc'

    # --- The model -------------------------------------------------------------------------------
    # Small corpora want small models: these sizes suit some 100,000 pairs. For millions of pairs
    # and a GPU take the paper's base: 6 layers, d_model 512, d_ff 2048, 8 heads, dropout 0.1; and
    # with it, below, 25,000 tokens a batch, 4,000 warmup steps and 100,000 steps.
    config.model.num_layers = 4
    config.model.d_model = 256
    config.model.d_ff = 1024
    config.model.num_heads = 4
    # The less text, the more dropout: 0.3 for 30,000 pairs, 0.1 for millions.
    config.model.dropout_rate = 0.2

    # --- Batches ---------------------------------------------------------------------------------
    # Pairs with more tokens than this on one side are left out of training (a message says how
    # many); translating has no such limit.
    config.data.max_length = 128
    # Tokens of each side per step. Larger is steadier and needs more memory: 4,096 for a laptop,
    # 25,000 for a GPU. What does not fit is refused before step 1; config.train.accumulate_steps =
    # 4 then takes a batch in four parts.
    config.data.tokens_per_batch = 4096

    # --- Training --------------------------------------------------------------------------------
    # The learning rate rises for warmup_steps, then falls with the square root of the step.
    config.optimizer.warmup_steps = 1000
    config.train.steps = 20_000
    # To fine-tune a model that is trained already, name its folder (runs/general, say): its weights
    # and its vocabulary are where this run begins, and the sizes above have to be its sizes. The
    # learning rate rises anew: config.optimizer.learning_rate_scale = 0.1 forgets less.
    config.train.init_from = ''
    # Every so many steps: save; and translate and score the dev set (a multiple of the former).
    config.train.checkpoint_every = 500
    config.train.eval_every = 1000
    # Stop after so many evaluations without a better dev BLEU; 0 runs all the steps.
    config.train.patience = 5
    # Translate with the mean of the five checkpoints that did best on dev.
    config.train.keep_best = 5
    config.decode.average = 'best'
    config.decode.average_checkpoints = 5
    return config
