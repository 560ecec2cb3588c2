"""Train on your own two files. Copy this file, change the values below, and run

    python -m transformer_jax.main --config=configs/my_corpus.py

The run is kept in runs/my_corpus. Stop it whenever you like: the same command resumes it.
The files of transformer_jax/config/ explain every field.
"""

from transformer_jax.config import Config


def get_config():
    config = Config().to_config_dict()  # starts from the paper's base model

    # --- Your sentences -------------------------------------------------------------------------
    # Two text files in UTF-8, one sentence per line. Line 17 of one file translates line 17 of
    # the other. They may be compressed (.gz, .xz). A single table (.tsv, .csv or .jsonl) works
    # too: name it as train_source and leave train_target empty. Its columns must be named like
    # the languages, 'en' and 'fr'; set source_column and target_column for other names. In .tsv
    # and .csv files, the first row must name the columns.
    # Both languages may be the same, to correct or simplify sentences.
    config.data.corpus = 'files'
    config.data.source_language = 'en'
    config.data.target_language = 'fr'
    config.data.train_source = 'my_corpus/train.en'
    config.data.train_target = 'my_corpus/train.fr'
    # If you have files for dev and test, name them here. Otherwise dev_size and test_size pairs are
    # held out of the training files, and none of their source sentences is trained on.
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
    # SentencePiece's rule for the characters of both sides. This one makes full-width commas narrow
    # and turns '…' into three dots, also in translations. 'identity' changes nothing; a message
    # says when it matters, for example for Chinese, Japanese or Thai.
    config.data.normalization = 'nmt_nfkc'

    # --- The model -------------------------------------------------------------------------------
    # Small corpora need small models; these sizes suit about 100,000 pairs. For millions of pairs
    # and a GPU use the paper's base model: 6 layers, d_model 512, d_ff 2048, 8 heads, dropout 0.1,
    # and below 25,000 tokens per batch, 4,000 warmup steps and 100,000 steps.
    config.model.num_layers = 4
    config.model.d_model = 256
    config.model.d_ff = 1024
    config.model.num_heads = 4
    # Use more dropout for less text: 0.3 for 30,000 pairs, 0.1 for millions.
    config.model.dropout_rate = 0.2

    # --- Batches ---------------------------------------------------------------------------------
    # Pairs with more tokens on either side are left out of training (a message says how many).
    # Translation has no such limit.
    config.data.max_length = 128
    # Tokens of each side per step. Larger batches are steadier and need more memory: 4,096 for a
    # laptop, 25,000 for a GPU. A batch that does not fit is refused before step 1; then
    # config.train.accumulate_steps = 4 splits it into four micro-batches.
    config.data.tokens_per_batch = 4096

    # --- Training --------------------------------------------------------------------------------
    # The learning rate rises for warmup_steps, then falls with the square root of the step.
    config.optimizer.warmup_steps = 1000
    config.train.steps = 20_000
    # To fine-tune a trained model, name its folder, such as runs/general. This run then starts with
    # the weights and the vocabulary of that model, and the sizes above must be the same. Warm-up
    # restarts; config.optimizer.learning_rate_scale = 0.1 forgets less.
    config.train.init_from = ''
    # Save every checkpoint_every steps. Translate and score the dev set every eval_every steps, a
    # multiple of checkpoint_every.
    config.train.checkpoint_every = 500
    config.train.eval_every = 1000
    # Stop after this many evaluations without a better dev BLEU; 0 runs all steps.
    config.train.patience = 5
    # Translate with the mean of the five checkpoints with the best dev BLEU.
    config.train.keep_best = 5
    config.decode.average = 'best'
    config.decode.average_checkpoints = 5
    return config
