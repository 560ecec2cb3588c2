"""The image of the server and its Kubernetes file, as far as can be seen without Docker."""

import http.server
import json
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from transformer_jax import serve
from transformer_jax.serving import process

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / 'launch'
INSTRUCTIONS = re.findall(
    r'^([A-Z]+) (.*)$',
    (LAUNCH / 'serve.Dockerfile').read_text(encoding='utf-8').replace('\\\n', ''),
    re.MULTILINE,
)
SERVICE, DEPLOYMENT = yaml.safe_load_all((LAUNCH / 'serve.yaml').read_text(encoding='utf-8'))
POD = DEPLOYMENT['spec']['template']
(CONTAINER,) = POD['spec']['containers']


def instruction(name):
    """Return the arguments of the instructions of the Dockerfile with this name."""
    return [arguments for found, arguments in INSTRUCTIONS if found == name]


def python_code(command):
    """Return the program of `python -c PROGRAM`."""
    assert command[:2] == ['python', '-c'] and len(command) == 3
    return command[2]


def test_the_build_copies_files_that_exist_and_are_not_ignored():
    ignore_file = LAUNCH / 'serve.Dockerfile.dockerignore'
    kept = {line[1:] for line in ignore_file.read_text().splitlines() if line.startswith('!')}
    copied = {name for line in instruction('COPY') for name in line.split()[:-1]}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_the_server_knows_all_flags_and_has_the_port_that_is_published():
    (entrypoint,) = map(json.loads, instruction('ENTRYPOINT'))
    start = entrypoint.index('transformer_jax.serve')
    flags = serve._parser().parse_args(entrypoint[start + 1 :] + CONTAINER['args'])
    assert flags.host == '0.0.0.0'
    ports = [port['containerPort'] for port in CONTAINER['ports']]
    assert [str(flags.port)] == instruction('EXPOSE') == list(map(str, ports))
    assert POD['metadata']['annotations']['prometheus.io/port'] == str(flags.port)


def test_the_service_finds_the_pods_and_every_mount_its_volume():
    assert SERVICE['spec']['selector'].items() <= POD['metadata']['labels'].items()
    assert DEPLOYMENT['spec']['selector']['matchLabels'] == POD['metadata']['labels']
    ports = {port['name'] for port in CONTAINER['ports']}
    assert {port['targetPort'] for port in SERVICE['spec']['ports']} == ports
    for probe in ('startupProbe', 'readinessProbe', 'livenessProbe'):
        assert CONTAINER[probe]['httpGet'] == {'path': '/health', 'port': 'http'}
        assert CONTAINER[probe]['httpGet']['port'] in ports
    mounted = {mount['name'] for mount in CONTAINER['volumeMounts']}
    assert mounted == {volume['name'] for volume in POD['spec']['volumes']}
    keys = re.search(r'--api_keys=(\S+)/keys', ' '.join(CONTAINER['args']))[1]
    assert keys in {mount['mountPath'] for mount in CONTAINER['volumeMounts']}


def test_kubernetes_and_the_image_agree_on_the_user():
    security = POD['spec']['securityContext']
    assert instruction('USER') == [str(security['runAsUser'])]
    assert any(
        f'useradd --create-home --uid {security["runAsUser"]} ' in x for _, x in INSTRUCTIONS
    )


def test_kubernetes_waits_until_open_requests_have_ended():
    pause = int(CONTAINER['lifecycle']['preStop']['exec']['command'][1])
    assert pause + process._GRACE < POD['spec']['terminationGracePeriodSeconds']


@pytest.mark.parametrize(('status', 'healthy'), [(200, True), (503, False)])
def test_the_health_check_needs_only_python(status, healthy):
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == '/health' else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    (line,) = instruction('HEALTHCHECK')
    code = python_code(json.loads(line.partition(' CMD ')[2]))
    with http.server.HTTPServer(('127.0.0.1', 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = code.replace(
            f':{CONTAINER["ports"][0]["containerPort"]}/', f':{server.server_port}/'
        )
        done = subprocess.run([sys.executable, '-c', code], capture_output=True, timeout=30)
        server.shutdown()
    assert (done.returncode == 0) == healthy


@pytest.mark.parametrize(
    ('server', 'exit_code'),
    [
        (
            'import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n'
            'print("ready", flush=True)\ntime.sleep(10)',
            0,
        ),
        ('raise SystemExit(2)', 2),
    ],
    ids=['ready', 'failed'],
)
def test_the_build_stops_the_server_once_it_is_ready_and_fails_with_it(tmp_path, server, exit_code):
    package = tmp_path / 'transformer_jax'
    package.mkdir()
    (package / 'serve.py').write_text(server)
    (line,) = (line for line in instruction('RUN') if line.startswith('python'))
    code = python_code(shlex.split(line))
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=tmp_path, env={'PYTHONPATH': str(tmp_path)}, timeout=30
    )
    assert done.returncode == exit_code
