#!/usr/bin/env python3
"""Runs `adapter-gateway demo` and the curl line that it prints, and draws both terminals into docs/pictures/demo.svg.

    cargo build --release
    docs/pictures/terminal.py target/release/adapter-gateway

The picture has the lines of this run. Only the token and the name of the temporary directory are shortened.
"""

import html
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time

PICTURE = pathlib.Path(__file__).with_name("demo.svg")
TIMEOUT_S = 30
COLUMNS = 100
COLUMN_WIDTH = 7.83  # of a monospaced font of 13 pixels
LINE_HEIGHT = 18
MARGIN = 14
TITLE_HEIGHT = 30

STYLE = """
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #e6e6e6; white-space: pre; }
.title { font: 600 13px system-ui, sans-serif; fill: #b8c0c8; }
.typed { font-weight: 700; fill: #ffffff; }
.result { fill: #8fe08f; }
.terminal { fill: #1d2126; stroke: #7d8790; }
"""


class Demo:
    """The demo in a terminal of its own, since it prints the time of a message only there."""

    def __init__(self, program):
        self.reader, terminal = pty.openpty()
        self.child = subprocess.Popen(
            [program, "demo"],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "NO_COLOR": "1"},
        )
        os.close(terminal)
        os.set_blocking(self.reader, False)
        self.text = ""

    def read_until(self, pattern):
        """Returns the first match of the pattern in what the demo has printed."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := re.search(pattern, self.text, re.MULTILINE)) is None:
            if time.monotonic() > deadline or self.child.poll() is not None:
                sys.exit(f"the demo did not print {pattern}")
            time.sleep(0.05)
            try:
                self.text += os.read(self.reader, 65536).decode().replace("\r", "")
            except BlockingIOError:
                pass
        return found

    def end(self):
        self.child.send_signal(signal.SIGINT)
        self.child.wait(TIMEOUT_S)


def run(program):
    """Returns what the two terminals show, as pairs of a class and a line."""
    demo = Demo(program)
    try:
        command = demo.read_until(r"^curl .*\n")[0].strip()
        demo.read_until(r"Ctrl-C ends the demo")
        answer = subprocess.run(["sh", "-c", command], capture_output=True, check=True, text=True, timeout=TIMEOUT_S)
        demo.read_until(r'"content":"hello"\}$')
    finally:
        demo.end()
    lines = [line.expandtabs() for line in demo.text.rstrip("\n").split("\n")]
    first = [("typed", "$ adapter-gateway demo"), *(("", line) for line in lines[:-1]), ("result", lines[-1])]
    return first, [("typed", f"$ {command}"), ("result", answer.stdout.strip())]


def shortened(line):
    line = re.sub(r"token=([0-9a-f]{4})[0-9a-f]+", r"token=\1…", line)
    return re.sub(r"(adapter-gateway-demo-[0-9a-f]{4})[0-9a-f]+", r"\1…", line)


def draw(title, lines, top):
    """Returns the drawing of a terminal, and where it ends. A long line is broken between words."""
    rows = []
    for kind, line in lines:
        wrapped = textwrap.wrap(shortened(line), COLUMNS, replace_whitespace=False, break_on_hyphens=False)
        rows += [(kind, row) for row in wrapped or [""]]
    height = TITLE_HEIGHT + LINE_HEIGHT * len(rows) + MARGIN
    width = COLUMNS * COLUMN_WIDTH + 2 * MARGIN
    parts = [
        f'<rect x="1" y="{top}" width="{width:.0f}" height="{height}" rx="8" class="terminal"/>',
        f'<text x="{MARGIN}" y="{top + 20}" class="title">{title}</text>',
    ]
    y = top + TITLE_HEIGHT
    for kind, row in rows:
        y += LINE_HEIGHT
        if row:
            parts.append(f'<text x="{MARGIN}" y="{y}" class="{kind}">{html.escape(row, quote=False)}</text>')
    return "\n".join(parts), top + height


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    first, second = run(sys.argv[1])
    upper, end = draw("The first terminal: the demo prints each message as a subscriber sees it", first, 1)
    lower, end = draw("The second terminal: the curl line of the demo posts a message", second, end + MARGIN)
    width, height = round(COLUMNS * COLUMN_WIDTH) + 2 * MARGIN + 2, end + 1
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-labelledby="title desc">\n'
        "<!-- docs/pictures/terminal.py wrote this file from a run of the program. -->\n"
        '<title id="title">The demo in two terminals</title>\n'
        '<desc id="desc">The first terminal runs adapter-gateway demo, which prints a curl command. The second one runs '
        "this command and gets the status accepted. The first one then prints the topic and the payload of the message."
        "</desc>\n"
        f"<style>{STYLE}</style>\n{upper}\n{lower}\n</svg>\n"
    )


if __name__ == "__main__":
    main()
