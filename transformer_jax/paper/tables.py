"""Tables 2 to 4 of the paper: BLEU with the cost of training, variations, and parsing."""

from typing import NamedTuple

from transformer_jax.model import parameter_count
from transformer_jax.model.flops import training_flops
from transformer_jax.paper.table3 import LENGTH, ROWS, TOKENS, VOCAB_SIZE, row_config


class Result(NamedTuple):
    """A row of Table 2.

    Attributes:
      model: name.
      bleu_de: BLEU on newstest2014 English to German, or None.
      bleu_fr: English to French, or None.
      flops_de: the paper's FLOPs of training into German, or None.
      flops_fr: into French, or None.
    """

    model: str
    bleu_de: float | None
    bleu_fr: float | None
    flops_de: float | None
    flops_fr: float | None


TABLE_2 = (
    Result('ByteNet', 23.75, None, None, None),
    Result('Deep-Att + PosUnk', None, 39.2, None, 1.0e20),
    Result('GNMT + RL', 24.6, 39.92, 2.3e19, 1.4e20),
    Result('ConvS2S', 25.16, 40.46, 9.6e18, 1.5e20),
    Result('MoE', 26.03, 40.56, 2.0e19, 1.2e20),
    Result('Deep-Att + PosUnk, ensemble', None, 40.4, None, 8.0e20),
    Result('GNMT + RL, ensemble', 26.30, 41.16, 1.8e20, 1.1e21),
    Result('ConvS2S, ensemble', 26.36, 41.29, 7.7e19, 1.2e21),
    Result('Transformer, base', 27.3, 38.1, 3.3e18, 3.3e18),
    Result('Transformer, big', 28.4, 41.8, 2.3e19, 2.3e19),
)
# Parser | training data | F1 on section 23 of the Wall Street Journal.
TABLE_4 = (
    ('Vinyals & Kaiser et al. (2014)', 'WSJ only, discriminative', 88.3),
    ('Petrov et al. (2006)', 'WSJ only, discriminative', 90.4),
    ('Zhu et al. (2013)', 'WSJ only, discriminative', 90.4),
    ('Dyer et al. (2016)', 'WSJ only, discriminative', 91.7),
    ('Transformer (4 layers)', 'WSJ only, discriminative', 91.3),
    ('Zhu et al. (2013)', 'semi-supervised', 91.3),
    ('Huang & Harper (2009)', 'semi-supervised', 91.3),
    ('McClosky et al. (2006)', 'semi-supervised', 92.1),
    ('Vinyals & Kaiser et al. (2014)', 'semi-supervised', 92.1),
    ('Transformer (4 layers)', 'semi-supervised', 92.7),
    ('Luong et al. (2015)', 'multi-task', 93.0),
    ('Dyer et al. (2016)', 'generative', 93.3),
)
_NOTE_2 = f"""\
BLEU is on newstest2014, on tokens. The paper estimates FLOPs as time times number of GPUs times the
speed of a GPU, 9.5 TFLOP/s for a P100.
ours: model FLOPs of the matrix products, forward and back, of the paper's steps on {TOKENS:,} +
{TOKENS:,} tokens in sentences of {LENGTH}, without padding, with {VOCAB_SIZE:,} pieces. It is less,
because GPUs did not reach that speed, and because padding is not counted."""


_NOTE_3 = """\
parameters: with one shared embedding of 37,000 pieces, and attention without biases.
paper, off: the paper's count, and our difference from it. The paper says "about 37,000" pieces; its
  counts fit 41,000 pieces (65 M = 44.1 M of layers + 40,800 x 512), but 35,900 for "big" (213 M =
  176.2 M of layers + 35,900 x 1024). It gives no count for row E, which adds two tables of 1,024
  positions.
GFLOP: model FLOPs of a training step on 25,000 + 25,000 tokens in sentences of 25, without padding.
PPL, BLEU: the paper's on newstest2013, without averaging of checkpoints (section 6.2); PPL per word
  piece, BLEU on tokens with compounds split. Compare them with the perplexity per token and the
  line "compounds split" of
    python -m transformer_jax.evaluate --workdir=DIR --split=dev --checkpoints=1
measured: in this repository; '-' is not measured yet."""


def table2() -> str:
    """Return Table 2 as text, with our own count of FLOPs beside the two Transformers."""
    lines = [
        f'{"model":30}{"BLEU de":>9}{"BLEU fr":>9}{"FLOPs de":>11}{"FLOPs fr":>11}{"ours de":>11}'
    ]
    for row in TABLE_2:
        ours = total_flops(row.model.rpartition(' ')[2]) if 'Transformer' in row.model else None
        numbers = [
            *(_text(bleu, 9, '') for bleu in (row.bleu_de, row.bleu_fr)),
            *(_text(flops, 11, '.1e') for flops in (row.flops_de, row.flops_fr, ours)),
        ]
        lines.append(f'{row.model:30}{"".join(numbers)}')
    return '\n'.join([*lines, '', _NOTE_2])


def table3() -> str:
    """Return Table 3 as text, one line for each row."""
    lines = [
        f'{"row":16}{"layers":>7}{"d_model":>8}{"d_ff":>6}{"heads":>6}{"d_k":>5}{"d_v":>5}'
        f'{"positions":>12}{"dropout":>8}{"smooth":>7}{"steps":>6}  {"parameters":>11}'
        f'{"paper":>7}{"off":>7}{"GFLOP":>8}{"PPL":>6}{"BLEU":>6}  measured'
    ]
    lengths = [LENGTH] * (TOKENS // LENGTH)
    for name, row in ROWS.items():
        config = row_config(name)
        model = config.model
        count = parameter_count(model, VOCAB_SIZE)
        flops = training_flops(model, VOCAB_SIZE, lengths, lengths)
        paper, off = '-', '-'
        if row.parameters is not None:
            paper, off = f'{row.parameters}M', f'{100 * (count / row.parameters / 1e6 - 1):.1f}%'
        lines.append(
            f'{name:16}{model.num_layers:7}{model.d_model:8}{model.d_ff:6}{model.num_heads:6}'
            f'{model.key_size:5}{model.value_size:5}{model.positions:>12}{model.dropout_rate:8}'
            f'{config.optimizer.label_smoothing:7}{config.train.steps // 1000:5}K'
            f'  {count:11,}{paper:>7}{off:>7}'
            f'{flops / 1e9:8,.0f}{row.perplexity:6}{row.bleu:6}  {row.measured or "-"}'
        )
    return '\n'.join([*lines, '', _NOTE_3])


def table4() -> str:
    """Return Table 4 as text."""
    lines = [f'{"parser":34}{"training":28}F1']
    lines += [f'{parser:34}{data:28}{f1}' for parser, data, f1 in TABLE_4]
    return '\n'.join(lines)


def total_flops(row: str) -> float:
    """Return the model FLOPs of a whole training of a row of Table 3."""
    config = row_config(row)
    lengths = [LENGTH] * (TOKENS // LENGTH)
    return config.train.steps * training_flops(config.model, VOCAB_SIZE, lengths, lengths)


def _text(number: float | None, width: int, form: str) -> str:
    return f'{"-" if number is None else format(number, form):>{width}}'
