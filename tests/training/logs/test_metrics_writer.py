import json
import math

from transformer_jax.training.logs.metrics_writer import MetricsWriter, read_metrics


class NoTracker:
    def write(self, step, values):
        pass

    def close(self):
        pass


def record(step, **values):
    return {'step': step, 'kind': 'train', **values}


def test_records_are_on_disk_at_once(tmp_path):
    writer = MetricsWriter(tmp_path / 'metrics.jsonl', NoTracker(), step=0)
    writer.write(record(5, loss=1.5))
    assert json.loads((tmp_path / 'metrics.jsonl').read_text()) == record(5, loss=1.5)
    writer.close()


def test_records_after_the_resumed_step_are_dropped(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    path.write_text(''.join(json.dumps(record(step)) + '\n' for step in (5, 10, 15)))
    writer = MetricsWriter(path, NoTracker(), step=10)
    writer.write(record(15, again=1))
    writer.close()
    assert read_metrics(path) == [record(5), record(10), record(15, again=1)]


def test_a_line_cut_short_is_ignored(tmp_path):
    (tmp_path / 'metrics.jsonl').write_text(json.dumps(record(5)) + '\n{"step": 1')
    assert read_metrics(tmp_path / 'metrics.jsonl') == [record(5)]


def test_the_copy_of_a_damaged_file_follows_no_link(tmp_path):
    (tmp_path / 'precious').write_text('as it was')
    (tmp_path / 'metrics.jsonl').write_text('damaged\n')
    (tmp_path / 'metrics.jsonl.damaged').symlink_to('precious')
    MetricsWriter(tmp_path / 'metrics.jsonl', NoTracker(), step=0).close()
    assert (tmp_path / 'precious').read_text() == 'as it was'
    assert (tmp_path / 'metrics.jsonl.damaged').read_text() == 'damaged\n'


def test_a_copy_of_a_damaged_file_is_kept(tmp_path, caplog):
    path = tmp_path / 'metrics.jsonl'
    damaged = b'x{}\n17\n\xff\xfe\n' + json.dumps(record(5)).encode() + b'\n{"step": 6}\n'
    path.write_bytes(damaged)
    writer = MetricsWriter(path, NoTracker(), step=10)
    writer.close()
    assert writer.records == read_metrics(path) == [record(5)]
    assert (tmp_path / 'metrics.jsonl.damaged').read_bytes() == damaged
    assert '4 lines of' in caplog.text


class Tracker(NoTracker):
    def __init__(self):
        self.seen = []

    def write(self, step, values):
        self.seen.append((step, values))


def test_the_tracker_gets_the_same_numbers(tmp_path):
    tracker = Tracker()
    writer = MetricsWriter(tmp_path / 'metrics.jsonl', tracker, step=0)
    writer.write(record(5, loss=1.5))
    writer.write({'step': 6, 'kind': 'dev', 'bleu': 2.0})
    assert tracker.seen == [(5, {'train/loss': 1.5}), (6, {'dev/bleu': 2.0})]


def test_a_number_that_is_not_finite_is_null_and_the_tracker_does_not_get_it(tmp_path):
    tracker = Tracker()
    metrics = MetricsWriter(tmp_path / 'metrics.jsonl', tracker, step=0)
    undefined = {'loss': math.nan, 'perplexity': math.inf}
    metrics.write({'step': 1, 'kind': 'dev', 'bleu': 0.0, **undefined})
    found = {'step': 1, 'kind': 'dev', 'bleu': 0.0, 'loss': None, 'perplexity': None}
    assert metrics.records == read_metrics(tmp_path / 'metrics.jsonl') == [found]
    assert 'NaN' not in (tmp_path / 'metrics.jsonl').read_text()
    assert tracker.seen == [(1, {'dev/bleu': 0.0})]


def test_a_dev_record_without_its_numbers_is_unreadable(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    dev = {'step': 5, 'kind': 'dev', 'loss': 1.5, 'bleu': 2.0}
    lines = [dev, dev | {'bleu': None}, dev | {'bleu': 'x'}, {'step': 5, 'kind': 'dev'}]
    path.write_text(''.join(json.dumps(line) + '\n' for line in lines))
    assert read_metrics(path) == [dev]
