"""session_test.py BMOE BMOE_DOC_KEYS MODEL HYBRID: a session on a real model, every line checked against the
schema in both directions, and what must hold from one request to the next."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from bmoe_lines import Schema, Session, Wrong

bmoe, doc_keys, model, hybrid = sys.argv[1:5]
schema = Schema(doc_keys)
text = "And it came to pass in those days, that"
run = ["-m", model, "-t", "2", "-c", "512", "--ubatch", "64"]
streamed = [*run, "--moe-stream", "--cache-mb", "3"]


def same(what, a, b):
    if a != b:
        raise Wrong(f"{what}: {a!r} and {b!r}")


def holds(what, condition):
    if not condition:
        raise Wrong(what)


def answers_follow_each_other():
    s = Session(schema, bmoe, *streamed)
    ready = s.until("READY")[-1][1]
    same("version", ready["v"], 1)
    first = s.ask("generate", "DONE", prompt=text, n_predict=12)
    lines = []
    s.send("generate", prompt=text, n_predict=12)
    lines = s.until("DONE")
    again = lines[-1][1]
    same("the same request", first["text"], again["text"])
    tokens = [body for tag, body in lines if tag == "PROGRESS" and body["step"] > 0]
    same("steps", [t["step"] for t in tokens], list(range(1, 13)))
    same("deltas", "".join(t["delta_text"] for t in tokens), again["text"])
    prefill = [body for tag, body in lines if tag == "PROGRESS" and body["step"] == 0]
    same("the prompt's progress", (prefill[0]["tokens_done"], prefill[-1]["tokens_done"]),
         (0, prefill[-1]["tokens_total"]))
    same("prompt tokens", again["n_prompt"], prefill[-1]["tokens_total"])
    same("reads of the tokens", round(sum(t["read_mb"] for t in tokens), 3),
         round(again["read_mib"] - again["prefill_read_mib"], 3))
    kept = s.ask("generate", "DONE", prompt=text + first["text"], n_predict=4, clear_kv=False)
    holds("a kept beginning is used", kept["n_reused"] > 8 and kept["n_prompt"] < 8)
    fresh = s.ask("generate", "DONE", prompt=text + first["text"], n_predict=4)
    same("nothing is kept otherwise", fresh["n_reused"], 0)
    stats = s.ask("stats", "STATS")
    same("decodes", stats["decode_tokens"], 11 + 11 + 3 + 3)
    same("what is unknown", s.ask("sing", "ERROR")["code"], "unknown_command")
    same("an empty prompt", s.ask("generate", "ERROR", prompt="")["code"], "context")
    same("a grammar that is none", s.ask("generate", "ERROR", prompt="a", grammar="((")["code"],
         "misuse")
    same("a prompt over the context", s.ask("generate", "ERROR", prompt="and " * 600)["code"],
         "context")
    same("a stop text", s.ask("generate", "DONE", prompt=text, n_predict=12,
                              stop=[first["text"].strip()[-4:]])["end"], "stop")
    same("after all that", s.ask("generate", "DONE", prompt=text, n_predict=12)["text"],
         first["text"])
    same("the exit status", s.end(), 0)
    resident = Session(schema, bmoe, *run, "--no-moe-stream")
    resident.until("READY")
    same("streamed and resident", resident.ask("generate", "DONE", prompt=text,
                                               n_predict=12)["text"], first["text"])
    same("the exit status", resident.end(), 0)


def a_saved_conversation_goes_on():
    """Brought as messages or had live, a conversation gives the same answers; a refused one costs
    nothing; one that does not fit loses its oldest exchanges."""
    chat = [*streamed, "--chatml", "--chat-format", "chatml"]
    live = Session(schema, bmoe, *chat)
    live.until("READY")
    one = live.ask("generate", "DONE", prompt="How are you?", n_predict=8)
    two = live.ask("generate", "DONE", prompt="And they?", n_predict=8, clear_kv=False)
    holds("the conversation is reused", two["n_reused"] > 0)
    said = [{"role": "user", "content": "How are you?"},
            {"role": "assistant", "content": one["text"]},
            {"role": "user", "content": "And they?"}]
    seeded = Session(schema, bmoe, *chat)
    seeded.until("READY")
    brought = seeded.ask("generate", "DONE", messages=said, n_predict=8)
    same("brought and live", brought["text"], two["text"])
    same("both are the prompt", brought["n_prompt"], two["n_prompt"] + two["n_reused"])
    again = seeded.ask("generate", "DONE", messages=said, n_predict=8, clear_kv=False)
    same("brought again, with what is there", again["text"], two["text"])
    holds("all but the last token is there", again["n_reused"] == brought["n_prompt"] - 1)
    same("a refused one", seeded.ask("generate", "ERROR", messages=said[:2])["code"], "field")
    third = seeded.ask("generate", "DONE", prompt="And he?", n_predict=8, clear_kv=False)
    same("goes on live", live.ask("generate", "DONE", prompt="And he?", n_predict=8,
                                  clear_kv=False)["text"], third["text"])
    same("messages", seeded.ask("stats", "STATS")["n_messages"], 6)
    long = [m for i in range(60) for m in ({"role": "user", "content": f"Say {i} once more."},
                                           {"role": "assistant", "content": "No, not again."})]
    long = [{"role": "system", "content": "Be kind."}, *long, {"role": "user", "content": "So?"}]
    same("too long", seeded.ask("generate", "ERROR", messages=long)["code"], "context")
    fitted = seeded.ask("generate", "DONE", messages=long, n_predict=8, fit_ctx=True)
    holds("whole exchanges are left out", fitted["n_dropped"] > 0 and fitted["n_dropped"] % 2 == 0)
    rest = [long[0], *long[1 + fitted["n_dropped"]:]]
    same("what fits is what was answered",
         seeded.ask("generate", "DONE", messages=rest, n_predict=8)["text"], fitted["text"])
    seeded.ask("clear", "STATS")
    same("messages", seeded.ask("stats", "STATS")["n_messages"], 0)
    live.end()
    seeded.end()


def cancel_and_signals():
    s = Session(schema, bmoe, *streamed)
    s.until("READY")
    right = s.ask("generate", "DONE", prompt=text, n_predict=8)["text"]
    for after in (0, 0.01, 0.05, 0.2):
        wanted = s.send("generate", prompt=text * 20, n_predict=300, ignore_eos=True)
        time.sleep(after)
        s.write(b'{"cmd":"cancel","id":%d}\n' % wanted)
        done = s.until("DONE")[-1][1]
        same("cancelled", (done["cancelled"], done["end"]), (True, "cancelled"))
    same("the next one", s.ask("generate", "DONE", prompt=text, n_predict=8)["text"], right)
    s.send("generate", prompt=text, n_predict=400, ignore_eos=True)
    s.send("generate", prompt=text, n_predict=400, ignore_eos=True)
    s.until("PROGRESS")
    s.process.send_signal(signal.SIGTERM)
    for _ in range(2):
        same("ended by a signal", s.until("DONE")[-1][1]["cancelled"], True)
    same("the exit status", s.end(), 128 + signal.SIGTERM)


def decisions_keep_their_prefix():
    """The scores are the same, to the last bit, whatever was kept, streamed or not."""
    prefix, choices = text * 12, [" the", " a", " when", "."]
    ways = {"streamed": [*streamed, "--decide"], "resident": [*run, "--no-moe-stream", "--decide"],
            "cache off": [*streamed, "--decide", "--decide-prefix-cache", "off"]}
    scores = {}
    for name, options in ways.items():
        s = Session(schema, bmoe, *options)
        s.until("READY")
        before = s.ask("generate", "DONE", prompt=text, n_predict=6)["text"]
        got = [s.ask("decide", "DECIDE", prefix=prefix, suffix=" So", choices=choices,
                     reuse_prefix=reuse) for reuse in (False, True, True)]
        reused = [d["n_reused"] for d in got]
        same("reuse", [n > 0 for n in reused], [False, False, name != "cache off"])
        for d in got:
            same("scores", d["choice_logp"], got[0]["choice_logp"])
            same("best", d["choice_logp"][d["best"]], max(d["choice_logp"]))
        scores[name] = got[0]["choice_logp"]
        same("a refusal", s.ask("decide", "ERROR", prefix="a", choices=[" the", " the"])["code"],
             "misuse")
        same("too long", s.ask("decide", "ERROR", prefix=text * 200, choices=["a"])["code"],
             "context")
        same("an answer after it", s.ask("generate", "DONE", prompt=text, n_predict=6)["text"],
             before)
        s.end()
    same("streamed and resident", scores["streamed"], scores["resident"])
    same("with and without the cache", scores["streamed"], scores["cache off"])


def kept_states_are_planned():
    """A model with recurrent layers keeps a state at the end of a prompt and one of a decision's prefix:
    both are in the plan, and the plan is what the process takes at most."""
    letters = "".join(chr(97 + i * i % 23) for i in range(1400))
    s = Session(schema, bmoe, "-m", hybrid, "-t", "2", "-c", "2048", "--ubatch", "256", "--moe-stream",
                "--cache-mb", "6", "--decide")
    s.until("READY")
    s.ask("generate", "DONE", prompt=letters[:600], n_predict=3)
    grown = s.ask("generate", "DONE", prompt=letters[:700], n_predict=3, clear_kv=False)
    holds("an answer in between costs nothing", grown["n_reused"] > 500)
    for end in " a", " b":
        decided = s.ask("decide", "DECIDE", prefix=letters, suffix=end, choices=["a", "e"])
    holds("the prefix is kept", decided["n_reused"] > 1300)
    stats = s.ask("stats", "STATS")
    plan = re.search(r"its copies ([0-9.]+),.* at most ([0-9.]+) MiB", s.stderr.decode())
    copies, most = float(plan.group(1)), float(plan.group(2))
    holds("states are kept", 0 < stats["prefix_state_mib"] <= copies)
    if "BMOE_FUZZ_GROWTH_KIB" not in os.environ:  # a sanitizer takes memory of its own
        holds(f"peak {stats['peak_rss_mib']} of {most} MiB", stats["peak_rss_mib"] <= most)
    s.end()


def perplexity_agrees_with_decisions():
    """--ppl-choices and decide score alike; a text has the same perplexity streamed or not."""
    long = text * 6
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(long)
        file.flush()
        outs = [subprocess.run([bmoe, *options, "--ppl", file.name, "--ppl-choices", " the, a,."],
                               check=True, capture_output=True).stdout.decode().split("\n")
                for options in (streamed, [*run, "--no-moe-stream"])]
        steps = subprocess.run([bmoe, *streamed, "--ppl", file.name, "--ppl-step"], check=True,
                               capture_output=True).stdout
    same("streamed and resident", outs[0], outs[1])
    holds("one graph per token is near", abs(float(steps) / float(outs[0][0]) - 1) < 0.01)
    s = Session(schema, bmoe, *streamed, "--decide")
    s.until("READY")
    decided = s.ask("decide", "DECIDE", prefix=long, choices=[" the", " a", "."])
    same("choices", [float(line.split()[1]) for line in outs[0][1:4]], decided["choice_logp"])
    s.end()


def a_table_is_read_by_name():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/table.csv"
        s = Session(schema, bmoe, *streamed, "--csv", path)
        s.until("READY")
        turns = []
        for n in (5, 3):
            s.send("generate", prompt=text, n_predict=n)
            turns.append(s.until("DONE"))
        s.end()
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().splitlines()
        same("the disk is full",
             subprocess.run([bmoe, *streamed, "-p", text, "-n", "2", "--csv", "/dev/full"],
                            capture_output=True).stderr.count(b"the table is not whole"), 1)
        same("no such folder",
             subprocess.run([bmoe, *streamed, "-p", text, "--csv", folder + "/no/x"],
                            capture_output=True).returncode, 1)
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    columns = schema.lines["CSV"]
    same("columns", set(rows[0]), set(columns))
    same("rows", [(r["turn"], r["step"]) for r in rows],
         [("1", str(i)) for i in range(1, 6)] + [("2", str(i)) for i in range(1, 4)])
    told = [body for turn in turns for tag, body in turn if tag == "PROGRESS" and body["step"] > 0]
    for row, body in zip(rows, told):
        for name in columns:
            float(row[name])
        same("wall_ms", float(row["wall_ms"]), round(body["wall_ms"], 3))
        same("read_bytes", int(row["read_bytes"]), round(body["read_mb"] * 2 ** 20))
        holds("memory is measured", float(row["rss_mib"]) > 1 < float(row["mem_available_mib"]))
        same("budget", float(row["cache_budget_mib"]), 3.0)
    trailers = [dict(word.split("=", 1) for word in line.split()[2:]) for line in lines
                if line.startswith("# summary ")]
    same("trailers", len(trailers), 2)
    for trailer, turn in zip(trailers, turns):
        for name, value in turn[-1][1].items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and \
                    name not in ("id", "n_dropped"):
                spelled = name if name.startswith("prefill_") else re.sub(
                    "_mib$", "_MiB", re.sub("_tok$", "/tok", re.sub("^tok_s$", "tok/s", name)))
                holds(f"trailer {name}", abs(float(trailer[spelled]) - value) < 1e-6)
    preamble = " ".join(line for line in lines if line.startswith("#"))
    for word in ("bmoe_metrics v2", "engine=bmoe", "arch=qwen3moe", "moe_stream=1", "seed="):
        holds(f"preamble {word}", word in preamble)


def decisions_and_texts_have_rows():
    def table(path):
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().splitlines()
        return (list(csv.DictReader(line for line in lines if not line.startswith("#"))),
                [dict(word.split("=", 1) for word in line.split()[2:]) for line in lines
                 if line.startswith("# summary ")])

    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/table.csv"
        s = Session(schema, bmoe, *streamed, "--decide", "--csv", path)
        s.until("READY")
        decided = [s.ask("decide", "DECIDE", prefix=text, suffix=" So", choices=[" the", " a"])
                   for _ in range(2)]
        s.ask("generate", "DONE", prompt=text, n_predict=2)
        s.end()
        rows, trailers = table(path)
        same("kinds", [(r["turn"], r["kind"], r["step"]) for r in rows],
             [("1", "1", "1"), ("2", "1", "1"), ("3", "0", "1"), ("3", "0", "2")])
        for row, trailer, body in zip(rows, trailers, decided):
            same("tokens", int(row["n_computed"]), body["n_prefilled"])
            same("tokens of the trailer", int(trailer["n_prompt"]), body["n_prefilled"])
            same("reused", int(trailer["n_reused"]), body["n_reused"])
            same("reads", int(row["read_bytes"]), round(body["prefill_read_mib"] * 2 ** 20))
            holds("time", float(row["wall_ms"]) >= body["prefill_s"] * 1e3 - 1)
        same("tokens of an answer", [int(r["n_computed"]) for r in rows[2:]], [0, 1])
        with open(folder + "/text", "w", encoding="utf-8") as file:
            file.write(text * 20)
        score = [bmoe, *streamed, "--ppl", file.name, "--csv", path]
        subprocess.run([*score, "--ppl-chunk", "32"], check=True, capture_output=True)
        rows, trailers = table(path)
        same("a row per window", [(r["kind"], r["step"]) for r in rows],
             [("2", str(i + 1)) for i in range(int(rows[0]["steps"]))])
        same("a window's tokens", {r["n_computed"] for r in rows}, {"32"})
        same("a text's tokens", [int(t["n_prompt"]) for t in trailers], [32 * len(rows)])
        subprocess.run([*score, "--ppl-choices", " the, a"], check=True, capture_output=True)
        rows, trailers = table(path)
        same("a text and a decision", [(r["turn"], r["kind"]) for r in rows],
             [("1", "2"), ("2", "1")])
        same("their tokens", [t["n_prompt"] for t in trailers], [r["n_computed"] for r in rows])


def traces_change_no_bit():
    def read(path):
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(line for line in file if not line.startswith("#")))

    def run_with(*options, status=0):
        ended = subprocess.run([bmoe, *streamed, "-p", text, "-n", "8", *options],
                               capture_output=True)
        same("exit status", ended.returncode, status)
        return ended.stdout

    with tempfile.TemporaryDirectory() as folder:
        path = {name: f"{folder}/{name}" for name in ("route", "io", "graph")}
        plain = run_with()
        same("routes and reads", run_with("--route-trace", path["route"], "--io-trace",
                                          path["io"]), plain)
        same("nodes", run_with("--graph-trace", path["graph"]), plain)
        same("a full disk", run_with("--route-trace", "/dev/full", status=1), plain)
        routes, reads, nodes = (read(path[name]) for name in ("route", "io", "graph"))
    decodes = {r["step"] for r in routes if r["phase"] == "1"}
    same("a decode per token but the last", len(decodes), 7)
    layers = {r["layer"] for r in routes}
    for step in decodes:
        rows = [r for r in routes if r["step"] == step]
        same("experts of a token", len(rows), 4 * len(layers))
        for layer in layers:
            weights = [float(r["weight"]) for r in rows if r["layer"] == layer]
            holds("weights add up", abs(sum(weights) - 1) < 1e-4)
    holds("some are there, some are not", {r["residency"] for r in routes} == {"0", "1"})
    holds("reads have a cause", {r["cause"] for r in reads} <= {"fault", "routed", "ahead"})
    holds("reads are timed", all(int(r["latency_us"]) >= 0 < int(r["bytes"]) for r in reads))
    holds("nodes of every graph", len({r["step"] for r in nodes}) == 8)
    holds("expert matmuls among them", any(r["op"] == "MUL_MAT_ID" for r in nodes))
    splits = [r for r in nodes if r["op"] == "SPLIT"]
    same("all is one split of the CPU", [(r["split"], r["device"]) for r in splits], [("0", "CPU")] * 8)
    for split in splits:
        within = [r for r in nodes if r["step"] == split["step"] and r["op"] != "SPLIT"]
        same("its time", int(split["wall_us"]), sum(int(r["wall_us"]) for r in within))
        same("its last node", split["seq"], within[-1]["seq"])


def options_fit_their_schema():
    def run_json(*options):
        return json.loads(subprocess.run([bmoe, *options], capture_output=True).stdout)

    properties = run_json("--describe-params")["properties"]
    shown = run_json("--show-config", *streamed)
    same("valid", shown["valid"], True)
    same("every option is described", set(shown["config"]) | {"show-config"}, set(properties))
    for name, value in shown["config"].items():
        kinds = {"string": str, "boolean": bool, "integer": int, "number": float, "array": list}
        either = properties[name].get("anyOf", [properties[name]])
        holds(f"{name} = {value!r}", value is None or any(
            isinstance(value, kinds[one["type"]]) and value in one.get("enum", [value])
            and one.get("minimum", 0) <= (value if one["type"] in ("integer", "number") else 0)
            for one in either))


def a_probe_changes_no_bit():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/probe"
        scores = []
        for probe in ([], ["--decide-probe", path]):
            s = Session(schema, bmoe, *streamed, "--decide", *probe)
            s.until("READY")
            scores.append([s.ask("decide", "DECIDE", prefix=text, suffix=" So",
                                 choices=[" the", " a"])["choice_logp"] for _ in range(2)])
            same("refused ones have no line", s.ask("decide", "ERROR", prefix="a",
                                                    choices=["b", "b"])["code"], "misuse")
            s.end()
        same("scores", scores[0], scores[1])
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    same("lines", [line["seq"] for line in lines], [1, 2])
    for line, logp in zip(lines, scores[1]):
        same("scores in the line", line["logp"], logp)
        same("scores of every layer", [len(scores) for scores in line["lens"]], [2] * 6)
        last = line["lens"][-1]
        holds("the last layer's are the model's, but for roundings",
              abs((last[1] - last[0]) - (logp[1] - logp[0])) < 0.2)
        holds("the first layer's are not", abs(line["lens"][0][1] - last[1]) > 1)
        for number, layer in enumerate(line["layers"]):
            # The last layer computes the token whose logits are wanted, and nothing else.
            last = number + 1 == len(line["layers"])
            n = 1 if last else line["n_prefilled"]
            same("every token is routed to four", sum(layer["cnt"]), 4 * n)
            holds("weights add up", abs(sum(layer["wsum"]) - n) < 1e-3)
            same("experts used", layer["nu"], sum(c > 0 for c in layer["cnt"]))


answers_follow_each_other()
a_probe_changes_no_bit()
options_fit_their_schema()
traces_change_no_bit()
a_table_is_read_by_name()
decisions_and_texts_have_rows()
perplexity_agrees_with_decisions()
decisions_keep_their_prefix()
kept_states_are_planned()
a_saved_conversation_goes_on()
cancel_and_signals()
missing = schema.never_seen()
if missing:
    raise Wrong(f"keys of the schema that no line had: {missing}")
print(f"{len(schema.seen)} keys seen, each of its type")
