"""Hugging Face's transformers, to compare an imported or exported model with."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from transformer_jax.conversion.parity.peer import Output, Pieces
from transformer_jax.errors import UserError

_ROWS = 16  # sentences of a batch


class TransformersPeer:
    """A Marian model in transformers; see `parity.peer.Peer`.

    Attributes:
      name: 'transformers' and its version.
    """

    def __init__(self, folder: Path, columns: np.ndarray, *, only_logits: bool = False):
        """Load a folder.

        Args:
          folder: the Hugging Face folder.
          columns: the target id there for each of our ids, with or without that of padding.
          only_logits: whether to tell no encoder outputs and log-probabilities.

        Raises:
          UserError: if transformers or torch is not installed.
        """
        try:
            import torch
            import transformers
        except ModuleNotFoundError as error:
            raise UserError(
                f'--check needs {error.name}: pip install "transformer_jax[peers]", or leave it '
                'out.'
            ) from error
        self.name = f'transformers {transformers.__version__}'
        self._torch, self._columns, self._only_logits = torch, columns, only_logits
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        folder = str(folder)
        options = {'local_files_only': True, 'dtype': torch.float32}
        self._model = transformers.MarianMTModel.from_pretrained(folder, **options).eval()
        self._tokenizer = tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self._source_ids = tokenizer.encoder
        separate = tokenizer.separate_vocabs
        self._target_ids = tokenizer.target_encoder if separate else tokenizer.encoder
        self._source_pieces, self._target_pieces = map(
            _inverse, (self._source_ids, self._target_ids)
        )
        settings = self._model.generation_config
        settings.max_length = None  # it has a limit of its own
        # Otherwise outputs of the greatest length end without the probability of their end.
        settings.forced_eos_token_id = None

    def source_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """See `Peer`."""
        return [
            tuple(self._source_pieces[k] for k in self._tokenizer(text).input_ids[:-1])
            for text in texts
        ]

    def search(self, sources: Sequence[Pieces], beam_size: int, limit: int) -> list[Output]:
        """See `Peer`."""
        outputs = []
        for k in range(0, len(sources), _ROWS):
            ids = [self._to_ids(source) for source in sources[k : k + _ROWS]]
            batch = self._tokenizer.pad({'input_ids': ids}, return_tensors='pt')
            with self._torch.no_grad():
                found = self._model.generate(
                    **batch,
                    num_beams=beam_size,
                    do_sample=False,
                    max_new_tokens=limit,
                    # The others end before nothing better can be found.
                    early_stopping='never' if beam_size > 1 else False,
                    return_dict_in_generate=True,
                    output_scores=True,
                )
            pieces = map(self._pieces_of, found.sequences[:, 1:].tolist())
            if beam_size == 1:  # it tells no scores
                outputs += map(Output, pieces)
            else:
                outputs += map(Output, pieces, found.sequences_scores.tolist())
        return outputs

    def values(
        self, sources: Sequence[Pieces], outputs: Sequence[Pieces]
    ) -> Iterator[dict[str, np.ndarray]]:
        """See `Peer`."""
        torch, config = self._torch, self._model.config
        for source, pieces in zip(sources, outputs, strict=True):
            ids = torch.tensor([*(self._target_ids[x] for x in pieces), config.eos_token_id])
            inputs = torch.cat([torch.tensor([config.decoder_start_token_id]), ids[:-1]])
            with torch.no_grad():
                result = self._model(
                    input_ids=torch.tensor([self._to_ids(source)]), decoder_input_ids=inputs[None]
                )
            logits = result.logits[0]
            found = {'logits': logits.numpy()[:, self._columns]}
            if not self._only_logits:
                if self._model.generation_config.renormalize_logits:
                    logits = logits.clone()
                    logits[:, config.pad_token_id] = -torch.inf
                log_probs = torch.log_softmax(logits, -1)[torch.arange(len(ids)), ids]
                found['encoder'] = result.encoder_last_hidden_state[0].numpy()
                found['log-probabilities'] = log_probs.numpy()
            yield found

    def text(self, pieces: Sequence[str]) -> str:
        """See `Peer`."""
        ids = [self._target_ids[piece] for piece in pieces]
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def _to_ids(self, source: Pieces) -> list[int]:
        return [*(self._source_ids[x] for x in source), self._model.config.eos_token_id]

    def _pieces_of(self, ids: list[int]) -> Pieces:
        eos = self._model.config.eos_token_id
        ids = ids[: ids.index(eos)] if eos in ids else ids
        return tuple(self._target_pieces[k] for k in ids)


def _inverse(ids: dict[str, int]) -> dict[int, str]:
    return {k: piece for piece, k in ids.items()}
