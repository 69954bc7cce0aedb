"""A program that drives `bmoe --session`, with the standard library alone: an independent reader of
the lines. Every line is checked against the schema that the program's lists make: its tag, every key,
every type; and what was seen is kept, so that at the end keys that never came are found."""

import json
import math
import os
import re
import subprocess
import threading

LINE = re.compile(rb"^BMOE_([A-Z]+) (\{.*\})\n$", re.DOTALL)


class Wrong(Exception):
    pass


def reject(name):
    raise Wrong(f"the constant {name} is no JSON")


def unique(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Wrong(f"a key twice in {pairs}")
    return out


def is_type(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, float) and math.isfinite(value)
    if kind == "numbers":
        return isinstance(value, list) and all(v is None or is_type(v, "number") for v in value)
    return isinstance(value, {"boolean": bool, "text": str}[kind])


class Schema:
    def __init__(self, tool):
        made = subprocess.run([tool, "--schema"], check=True, capture_output=True).stdout
        self.lines = json.loads(made)
        self.seen = set()

    def check(self, raw):
        """A line as bytes: its tag and its object, or Wrong."""
        match = LINE.match(raw)
        if not match:
            raise Wrong(f"not a line: {raw[:200]!r}")
        tag = match.group(1).decode()
        body = json.loads(match.group(2).decode("utf-8"), object_pairs_hook=unique,
                          parse_constant=reject)
        keys = self.lines.get(tag)
        if keys is None:
            raise Wrong(f"an unknown tag: {tag}")
        for name, value in body.items():
            if name not in keys:
                raise Wrong(f"{tag} has an unknown key {name}")
            if not is_type(value, keys[name]["type"]):
                raise Wrong(f"{tag}.{name} is {value!r}, not {keys[name]['type']}")
            self.seen.add((tag, name))
        for name, key in keys.items():
            if key["always"] and name not in body:
                raise Wrong(f"{tag} lacks {name}")
        return tag, body

    def never_seen(self):
        """Keys that no line had; the columns of a table are another's matter."""
        return sorted(f"{tag}.{name}" for tag, keys in self.lines.items() for name in keys
                      if (tag, name) not in self.seen and tag != "CSV")


class Session:
    """A running session. Lines are checked as they come."""

    def __init__(self, schema, bmoe, *options):
        self.schema = schema
        self.process = subprocess.Popen([bmoe, "--session", *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.stderr = b""
        self.drain = threading.Thread(target=self.read_stderr, daemon=True)
        self.drain.start()
        self.next_id = 0

    def read_stderr(self):
        for line in self.process.stderr:
            self.stderr += line
            self.stderr = self.stderr[-100000:]

    def line(self):
        """The next line; None at the end."""
        raw = self.process.stdout.readline()
        return self.schema.check(raw) if raw else None

    def write(self, raw):
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def send(self, cmd, **fields):
        """Sends a request and answers its id."""
        self.next_id += 1
        request = {"cmd": cmd, "id": self.next_id, **fields}
        self.write(json.dumps(request).encode() + b"\n")
        return request["id"]

    def until(self, tag):
        """Reads up to a line of that tag (or an error); all lines."""
        lines = []
        while True:
            line = self.line()
            if line is None:
                raise Wrong(f"the session ended before {tag}: {self.stderr.decode()[-2000:]}")
            lines.append(line)
            if line[0] in (tag, "ERROR"):
                return lines

    def ask(self, cmd, tag, **fields):
        """One request, its closing line's object, which must be of that tag."""
        self.send(cmd, **fields)
        got, body = self.until(tag)[-1]
        if got != tag:
            raise Wrong(f"{cmd} {fields}: {body}")
        return body

    def end(self):
        """Closes standard input; the exit status."""
        self.process.stdin.close()
        while self.line() is not None:
            pass
        self.drain.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.wait()

    def memory(self):
        """Resident KiB and the number of descriptors."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            rss = int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
        return rss, len(os.listdir(f"/proc/{self.process.pid}/fd"))
