"""Explorer of a large run: seconds to open it, and milliseconds of each query over HTTP.

    python benchmarks/explorer.py RUN [RUN ...] [--repeats 5]

The runs are folders, such as `contrapose metrics eqben --scores DIR --out RUN` writes of 251,048
examples. Each query is a new one, so that no answer comes from the cache of the server; its median
and its largest time are printed, with the processor time of the whole process beside them. Answers
hold 24 examples.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import contrapose as cp

LIMIT = 200
"""Milliseconds that an answer may take."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    start = time.perf_counter()
    with cp.view(*arguments.runs) as server:
        print(f"open {time.perf_counter() - start:.1f} s")
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        start = time.perf_counter()
        page = ask(connection, "/")
        print(f"page {time.perf_counter() - start:.1f} s, {len(page) / 1e6:.1f} MB")
        data = page.split(b'type="application/json">')[1].split(b"</script>")[0]
        values = json.loads(data)
        print(f"{values['total']:,} examples, {len(values['runs'])} runs")
        slowest = 0.0
        for name, words in list_queries(values).items():
            times, work = [], time.process_time()
            for i in range(arguments.repeats):
                # The text has a new number of spaces around it, which are not looked for.
                query = {"text": " " * (i + 1), **words, "offset": 24 * i, "most": 24}
                query["text"] = " " * (i + 1) + str(query["text"])
                start = time.perf_counter()
                answer = json.loads(ask(connection, "/api/examples?" + urlencode(query)))
                times.append(1000 * (time.perf_counter() - start))
            work = 1000 * (time.process_time() - work) / arguments.repeats
            slowest = max(slowest, statistics.median(times))
            print(
                f"{name:<28} {statistics.median(times):6.0f} ms, at most {max(times):6.0f} ms, "
                f"processor {work:6.0f} ms, {answer['count']:,} examples"
            )
        print(f"slowest median {slowest:.0f} ms; {'below' if slowest < LIMIT else 'ABOVE'} {LIMIT}")


def list_queries(values: dict[str, object]) -> dict[str, dict[str, object]]:
    """One query of each kind."""
    parts, runs = values["parts"], values["runs"]
    queries: dict[str, dict[str, object]] = {
        "all, worst first": {},
        "wrong, best first": {"outcome": "w", "sort": "best"},
        "closest calls": {"sort": "close"},
        "as in the benchmark": {"sort": "order"},
        "text": {"text": "12"},
        "text that nothing has": {"text": "no such words"},
    }
    if parts:
        queries["largest part, wrong"] = {"part": max(parts, key=lambda part: part[1])[0]}
        queries["largest part, wrong"]["outcome"] = "w"
    for tag, choices in values["tags"].items():
        queries["a tag"] = {"tag": tag, "value": choices[0][0]}
    if len(runs) > 1:
        queries["A right and B wrong"] = {"b": 1, "outcome": "right-wrong", "sort": "loss"}
    return queries


def ask(connection: http.client.HTTPConnection, address: str) -> bytes:
    """Answer of the server."""
    connection.request("GET", address)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise SystemExit(content.decode())
    return content


if __name__ == "__main__":
    main()
