"""session_fuzz.py BMOE BMOE_DOC_KEYS MODEL N [SEED [OPTION...]]: N lines to one session, many of them damaged:
bytes changed, put in, taken out; lines cut; requests cancelled at random times. Every line that is not
empty must have exactly one closing answer, every answer must fit the schema, and the process must not
grow, in memory or descriptors."""

import json
import os
import random
import sys
import time

from bmoe_lines import Schema, Session, Wrong

bmoe, doc_keys, model = sys.argv[1:4]
n_lines = int(sys.argv[4])
seed = int(sys.argv[5]) if len(sys.argv) > 5 else 1
dice = random.Random(seed)
schema = Schema(doc_keys)
CLOSING = {"DONE", "DECIDE", "STATS", "ERROR"}
WORDS = ["And", "it", "came", "to", "pass", "é", "\U0001f600", '"', "\\", "\t", "<|im_end|>", "LORD"]


def words(most):
    return " ".join(dice.choice(WORDS) for _ in range(dice.randrange(1, most)))


def messages():
    said = [{"role": "user" if i % 2 == 0 else "assistant", "content": words(6)}
            for i in range(dice.choice([1, 3]))]
    if dice.random() < 0.3:
        said.insert(0, {"role": "system", "content": words(4)})
    return said


def generate():
    request = {"cmd": "generate", "n_predict": dice.randrange(1, 5)}
    if dice.random() < 0.7:
        request["prompt"] = words(20)
    else:
        request["messages"] = messages()
    if dice.random() < 0.5:
        request["clear_kv"] = dice.random() < 0.5
    if dice.random() < 0.2:
        request["stop"] = [words(2)]
    if dice.random() < 0.2:
        request["sampling"] = {"temp": dice.choice([0, 0.8, 5]), "seed": dice.randrange(1 << 32)}
    if dice.random() < 0.1:
        request["grammar"] = dice.choice(['root ::= "yes" | "no"', "root ::= ((", ""])
    if dice.random() < 0.1:
        request[dice.choice(["fit_ctx", "ignore_eos", "think"])] = dice.choice([True, False, 1])
    return request


def decide():
    return {"cmd": "decide", "prefix": words(12), "suffix": words(4),
            "choices": [words(2) for _ in range(dice.randrange(0, 4))],
            "reuse_prefix": dice.random() < 0.8}


def damage(line):
    line = bytearray(line)
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(len(line) + 1)
        what = dice.random()
        if what < 0.3:
            line[at:at + 1] = bytes([dice.choice([b for b in range(256) if b != 10])])
        elif what < 0.5:
            del line[at:at + dice.randrange(1, 8)]
        elif what < 0.7:
            line[at:at] = bytes(dice.randrange(11, 256) for _ in range(dice.randrange(1, 8)))
        elif what < 0.85:
            line = line[:at]
        else:
            line += line[at:]
    return bytes(line)


def make_line(number):
    request = dice.choices([generate, decide, lambda: {"cmd": "stats"}, lambda: {"cmd": "clear"},
                            lambda: {"cmd": words(3)}, lambda: []],
                           [60, 15, 5, 3, 3, 1])[0]()
    if isinstance(request, dict):
        request["id"] = number
    line = json.dumps(request, ensure_ascii=dice.random() < 0.5).encode()
    return damage(line) if dice.random() < 0.35 else line


def write_cut(s, raw):
    """In pieces, as a pipe may bring it."""
    at = dice.randrange(len(raw))
    s.write(raw[:at])
    if dice.random() < 0.2:
        time.sleep(0.001)
    s.write(raw[at:])


def cancel(s, number):
    if dice.random() < 0.5:
        time.sleep(dice.random() * 0.02)
    target = dice.choice([b"", b',"id":%d' % dice.randrange(max(1, number - 20), number + 1)])
    s.write(b'{"cmd":"cancel"' + target + b"}\n")


def barrier(s, number):
    """Reads up to the answer of a request that is known to be right; counts the closing lines."""
    closed = 0
    s.write(b'{"cmd":"stats","id":%d}\n' % (number + 10 ** 9))
    while True:
        line = s.line()
        if line is None:
            raise Wrong(f"the session ended: {s.stderr.decode('utf-8', 'replace')[-1000:]}")
        tag, body = line
        if tag == "STATS" and body["id"] == number + 10 ** 9:
            return closed
        closed += tag in CLOSING


def settle(s):
    return s.ask("generate", "DONE", prompt="And it came to pass", n_predict=6)["text"]


s = Session(schema, bmoe, "-m", model, "-t", "2", "-c", "64", "--ubatch", "16", "--moe-stream",
            "--cache-mb", os.environ.get("BMOE_FUZZ_CACHE_MB", "3"), *sys.argv[6:])
s.until("READY")
right = settle(s)
number = 0
start = None
while number < n_lines:
    expected = 0
    for _ in range(dice.randrange(1, 20)):
        number += 1
        raw = make_line(number)
        expected += raw.rstrip(b"\r") != b"" and raw != b""
        write_cut(s, raw + b"\n")
        if dice.random() < 0.2:
            cancel(s, number)
    got = barrier(s, number)
    if got != expected:
        raise Wrong(f"seed {seed}: {got} answers to {expected} lines, the last of them {raw!r}")
    if start is None and number * 5 > n_lines:
        settle(s)
        start = s.memory()
if settle(s) != right:
    raise Wrong("an answer is not what it was at first")
end = s.memory()
# A sanitizer keeps freed memory for a while, and finds what is lost by itself.
most_kib = int(os.environ.get("BMOE_FUZZ_GROWTH_KIB", "4096"))
if end[0] - start[0] > most_kib or end[1] != start[1]:
    raise Wrong(f"grown: {start} to {end} (KiB, descriptors) in {n_lines} lines")
status = s.end()
if status != 0:
    raise Wrong(f"status {status}")
print(f"{number} lines; {start[0]} to {end[0]} KiB, {end[1]} descriptors")
