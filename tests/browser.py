"""A Chromium without a window that tests drive as a person does, over its DevTools protocol."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

BROWSER = next(filter(shutil.which, ('chromium', 'chromium-browser', 'google-chrome')), None)
_OPTIONS = ('--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe')
# Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
_LAUNCH = """import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(pipe), fcntl.F_DUPFD_CLOEXEC, 10) for pipe in sys.argv[1:3])
os.dup2(reads, 3), os.dup2(writes, 4)
os.execvp(sys.argv[3], sys.argv[3:])"""
_KEYS = {'Enter': (13, '\r'), 'Tab': (9, ''), 'ArrowDown': (40, ''), ' ': (32, ' ')}
_SHIFT, _CONTROL = 8, 2
_PATIENCE = 20  # seconds


class Browser:
    """One tab.

    Attributes:
      problems: errors of scripts, of the network and of the Content-Security-Policy.
    """

    def __init__(self, folder):
        """Start Chromium with its profile in a folder."""
        reads, self._commands = os.pipe()
        self._answers, writes = os.pipe()
        command = [sys.executable, '-c', _LAUNCH, str(reads), str(writes), BROWSER, *_OPTIONS]
        self._process = subprocess.Popen(
            [*command, f'--user-data-dir={folder}', 'about:blank'],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._received, self._number, self._session = b'', 0, None
        self._loaded, self.problems = None, []
        target = self.send('Target.createTarget', url='about:blank')['targetId']
        attached = self.send('Target.attachToTarget', targetId=target, flatten=True)
        self._session = attached['sessionId']
        for domain in ('Page', 'Runtime', 'Log'):
            self.send(f'{domain}.enable')
        self.send('Page.setLifecycleEventsEnabled', enabled=True)

    def send(self, method, **params):
        """Return the result of a command of the protocol."""
        self._number += 1
        message = {'id': self._number, 'method': method, 'params': params}
        if self._session:
            message['sessionId'] = self._session
        os.write(self._commands, json.dumps(message).encode() + b'\0')
        while True:
            answer = self._next()
            if answer.get('id') == self._number:
                assert 'error' not in answer, answer['error']
                return answer['result']

    def _next(self):
        """Return the next answer or event."""
        while b'\0' not in self._received:
            assert select.select([self._answers], [], [], _PATIENCE)[0], 'Chromium is silent'
            part = os.read(self._answers, 1 << 20)
            assert part, 'Chromium has ended'
            self._received += part
        message, _, self._received = self._received.partition(b'\0')
        answer = json.loads(message)
        match answer.get('method'):
            case 'Page.lifecycleEvent' if answer['params']['name'] == 'load':
                self._loaded = answer['params']['loaderId']
            case 'Runtime.exceptionThrown':
                self.problems.append(str(answer['params']['exceptionDetails']))
            case 'Log.entryAdded':
                self.problems.append(answer['params']['entry']['text'])
        return answer

    def open(self, address):
        """Open a page and wait until it is loaded."""
        opened = self.send('Page.navigate', url=address)
        assert 'errorText' not in opened, opened
        while self._loaded != opened['loaderId']:
            self._next()

    def value(self, expression):
        """Return the value of a JavaScript expression, or of its promise."""
        result = self.send(
            'Runtime.evaluate', expression=expression, awaitPromise=True, returnByValue=True
        )
        assert 'exceptionDetails' not in result, result
        return result['result'].get('value')

    def wait(self, expression):
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + _PATIENCE
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, f'{expression} stays {value!r}'
            time.sleep(0.01)
        return value

    def write(self, text):
        """Type a text where the focus is."""
        self.send('Input.insertText', text=text)

    def press(self, *keys, shift=False, control=False):
        """Press keys, one after another."""
        modifiers = _SHIFT * shift + _CONTROL * control
        for key in keys:
            code, text = _KEYS[key]
            event = {'key': key, 'windowsVirtualKeyCode': code, 'modifiers': modifiers}
            self.send('Input.dispatchKeyEvent', type='keyDown', text=text, **event)
            self.send('Input.dispatchKeyEvent', type='keyUp', **event)

    def paste(self):
        """Insert what was copied where the focus is."""
        self.send('Input.dispatchKeyEvent', type='keyDown', key='v', commands=['paste'])

    def screen(self, width, height, dark=False, is_phone=False):
        """Set the size of the screen in CSS pixels, and what its user prefers."""
        self.send(
            'Emulation.setDeviceMetricsOverride',
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )
        self.send('Emulation.setTouchEmulationEnabled', enabled=is_phone)
        scheme = {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}
        self.send('Emulation.setEmulatedMedia', features=[scheme])

    def picture(self, path, whole=False):
        """Write a PNG of the screen, or of the whole page."""
        data = self.send('Page.captureScreenshot', captureBeyondViewport=whole)['data']
        path.write_bytes(base64.b64decode(data))

    def close(self):
        """End Chromium."""
        self._session = None
        with contextlib.suppress(AssertionError, OSError):
            self.send('Browser.close')
        try:
            self._process.wait(_PATIENCE)
        finally:
            self._process.kill()
            os.close(self._commands)
            os.close(self._answers)


@contextlib.contextmanager
def browser():
    """Give a browser, and close it afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        opened = Browser(folder)
        try:
            yield opened
        finally:
            opened.close()
