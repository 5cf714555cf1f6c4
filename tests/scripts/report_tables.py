#!/usr/bin/env python3
"""Tables of known lines are exactly these, and no line that is broken ends the report."""
from types import SimpleNamespace

from report_lines import (
    broken, cells, comparison, lines_of, operation, profile, report, request, result, run_cases, step, summary, tables_of)
from reporting import page, times


def the_table_of_results_is_exactly_this():
    table, = tables_of(result("--kv paged"), result("--kv paged", summary={"output_throughput": 132.0}),
                       result("--kv contiguous", summary={"kv_use_peak": 1.0, "cached_tokens": 0}))
    assert table.markdown() == """### a, tiny

| flags           | runs | request throughput [requests/s] | output throughput [tokens/s] | P50 TTFT [ms] | P99 TTFT [ms] | P50 ITL [ms] | P99 ITL [ms] | P99 E2EL [ms] | sequences at once, mean | sequences at once, peak | cache in use, peak [%] | prompt tokens found in the cache [%] | preemptions |
|-----------------|-----:|--------------------------------:|-----------------------------:|--------------:|--------------:|-------------:|-------------:|--------------:|------------------------:|------------------------:|-----------------------:|-------------------------------------:|------------:|
| --kv paged      |    2 |                            4.00 |                          130 |          10.0 |          30.0 |         1.00 |         3.00 |           300 |                    7.50 |                    8.00 |                   40.0 |                                 25.0 |        1.00 |
| --kv contiguous |    1 |                            4.00 |                          128 |          10.0 |          30.0 |         1.00 |         3.00 |           300 |                    7.50 |                    8.00 |                    100 |                                    0 |        1.00 |

Medians of the runs. Commit c0ffee; workload: name random, requests 8, prompt_tokens 4-16, rate 0.
""", table.markdown()


def what_varies_in_the_workload_is_in_columns_or_flags():
    table, = tables_of(*(result(f"--load {load} --kv {kv}", workload={"rate": rate, "load": load, "output_tokens": [1, 2]})
                         for load, kv, rate in ((0.5, "paged", 10.25), (0.5, "paged", 12.5), (0.9, "paged", 20))))
    assert table.note == ("Medians of the runs. Commit c0ffee; workload: name random, requests 8, prompt_tokens 4-16, "
                          "output_tokens 1-2."), table.note
    assert [row[table.headers.index("rate")] for row in table.rows] == ["10.25 / 12.5", "20"], table.rows
    table, = tables_of(result("--rate 200", workload={"rate": 200}), result("--rate 400", workload={"rate": 400}))
    assert "rate" not in table.note and "rate" not in table.headers, table.markdown()


def machines_are_not_mixed():
    other = result(machine={"processor": "two"}, summary={"output_throughput": 1000.0})
    assert [cells(table)["a, tiny"]["output throughput [tokens/s]"] for table in tables_of(result(), other)] == ["128", "1,000"]


def failed_requests_are_shown():
    table, = tables_of(result("--kv paged"), result("--kv paged", summary={"failed": 3}), result("--kv contiguous"))
    assert cells(table)["--kv paged"]["failed requests"] == "3" and cells(table)["--kv contiguous"]["failed requests"] == "-"
    assert "Figures are of requests that completed." in table.note
    of_comparison = tables_of(comparison(of={"failed": 2}))[-1]
    assert of_comparison.rows[0][0] == "a, tiny, some requests failed: --kv paged over --kv contiguous", of_comparison.rows
    failed = {"run_id": "r", "error": "too_long"}
    for lines in ((request(), failed), (request(), failed, summary(failed=1))):
        table, = tables_of(*lines)
        assert cells(table)["made"]["failed requests"] == "1" and "Figures are of" in table.note, table.markdown()


def predictions_are_by_batch_size():
    """Two settings with the same mean number of sequences are two points of the curve."""
    def decode(batch, seconds):
        return result(f"--max-batch-size {batch}", "decode", {"duration": seconds, "running_mean": 24.0},
                      {"max_batch_size": batch})
    lines = [result(run="prefill", summary={"duration": 1.0}), decode(16, 1.0), decode(32, 2.0), decode(40, 4.0)]
    compared = comparison(of={"running_mean": 36.0}, to={"running_mean": 8.0})
    table = tables_of(*lines, compared)[-1]
    assert table.title == "What the batch curve allows, made", table.title
    # Prompts take a second in both; decodes one at 8 and, between 2 and 4, three at 36.
    assert table.rows == [["a", "8.00", "36.0", "0.500", "2.00", "4.00"]], table.rows
    # Runs of one output token decode nothing; a figure may be missing.
    for change in ({"decode_tokens": 0}, {"duration": 0}, {"decode_tokens": None}):
        nothing = [result(run=name, summary=change) for name in ("prefill", "decode")]
        assert all("batch curve" not in table.title for table in tables_of(*nothing, compared))
    assert len(tables_of(*lines, comparison(of={"running_mean": None}))) == len(tables_of(*lines, compared)) - 1


def the_table_of_operations_is_exactly_this():
    table, = tables_of({"run_id": "r", **profile(operation("matmul", 0.9), operation("norm", 0.05), operation("add", 0.009))})
    assert table.markdown() == """### Operations, made

| operation |        steps | time [ms] | share of time [%] | GB/s | TFLOP/s | of bound [%] |
|-----------|-------------:|----------:|------------------:|-----:|--------:|-------------:|
| matmul    | decodes only |       450 |              90.0 | 40.0 |   0.500 |           25 |
| norm      | decodes only |      25.0 |               5.0 | 40.0 |   0.500 |           25 |

Measured rates of the device: 80.0 GB/s and 2.00 TFLOP/s. Operations below 1 % are left out.
""", table.markdown()


def a_gap_has_the_wait_between_steps():
    lines, _, _ = report(step(1.0, 1.5), step(2.0, 2.25, 3), step(3.0, 3.5, 0), step(4.0, 4.5, 1))
    gaps = times.gaps_of(lines.runs["r"])
    assert gaps == [(1.25, 750.0, 3), (3.5, 1000.0, 1)], gaps
    assert times.percentile_of(gaps, 0.75) == 750.0 and times.percentile_of(gaps, 0.76) == 1000.0


def requests_arrive_when_the_file_says_or_as_long_before_the_end_as_they_took():
    assert times.arrivals_of([request(arrival_s=2.0), request(arrival_s=0.5)]) == [2.0, 0.5]
    assert times.arrivals_of([request(3), request(1, e2e_ms=250.0)]) == [1.75, 0.0]
    assert times.arrivals_of([request(), request(time=None)]) is None
    assert times.distribution([3, 1, 2, 4]) == ([1, 2, 3, 4], [25, 50, 75, 100])
    values, shares = times.distribution(range(10000))
    assert len(values) == times.MAX_MARKS and (values[0], values[-1], shares[-1]) == (0, 9999, 100)


def the_page_names_a_device_once():
    machine = {"processor": "one", "family": "26", "threads": 2, "device": "cpu (avx2, 2 threads)"}
    lines = lines_of(result(machine=machine), summary(device=machine["device"]), summary(run_id="s", device="cuda"))
    said = page.sources_html(lines).partition("</p>")[0].partition(">")[2]
    assert said == "Measured on one, family 26, cpu (avx2, 2 threads). Device: cuda.", said


def a_wide_table_of_few_rows_stands_on_its_side():
    wide, = tables_of(result("--kv paged --block-size 8"), result("--kv contiguous"))
    head, *rows = page.table_html(wide).split("<tr>")[1:]
    assert "<th><span>--kv paged</span> <span>--block-size 8</span></th><th><span>--kv contiguous</span></th>" in head, head
    assert rows[0].startswith("<td>runs</td><td>1</td><td>1</td>") and len(rows) == len(wide.headers) - 1, rows
    many, = tables_of(*(result(f"--seed {seed}") for seed in range(20)))
    head, *rows = page.table_html(many).split("<tr>")[1:]
    assert head.startswith("<th>flags</th>") and len(rows) == 20, head


def a_ratio_breaks_between_its_flags():
    assert page.cell_html("a: --kv paged over --prefix-cache off") == (
        "a: <span>--kv paged</span> over <span>--prefix-cache off</span>")
    assert page.cell_html("--overwrite over default") == "<span>--overwrite</span> over default"
    assert page.cell_html("a < b") == "a &lt; b"


def ids_in_the_page_are_those_of_one_plot():
    svg = '<?xml?><svg><g id="p1"/><use xlink:href="#p1"/><path clip-path="url(#p1)"/></svg>'
    inline = page.inline(svg, SimpleNamespace(name="one", title="a title"))
    assert inline == ('<svg role="img" aria-label="a title"><g id="one.p1"/><use xlink:href="#one.p1"/>'
                      '<path clip-path="url(#one.p1)"/></svg>'), inline


def a_broken_line_is_named_and_the_others_are_reported():
    measured = [result(run="prefill"), result("--max-batch-size 8", "decode"), comparison()]
    of_a_run = [request(1, arrival_s=0.5), step(0, 1), summary(profile=profile(operation("norm", 0.5)))]
    for lines in (measured, of_a_run, [request(1)]):
        for place, line in enumerate(lines):
            for other in broken(line):
                changed = [*lines[:place], other, *lines[place + 1:], result("--intact", run="intact")]
                found, experiments, _ = report(*changed)
                made = tables_of(*changed)
                page.make("", found, [], [], made)
                assert "intact" in {result.line.get("run") for result in found.results}, found.faults
                assert all(fault.partition(".jsonl:")[2].startswith(f"{place + 1}: found ") for fault in found.faults)
    faults = lines_of(
        result(summary={"p99_ttft_ms": "fast"}), result(command="--kv 'paged"), result(run=7), '{"kind":[]}',
        {**summary(), "config": None}, summary(profile=profile({**operation("norm", 0.5), "share": None})), '{"a":"\\ud800"}', "[" * 100000).faults
    wanted = ("found \"fast\" as summary.p99_ttft_ms, expected a number",
              "found \"pagedinfer bench --kv 'paged\" as command, expected a command",
              "found 7 as run, expected a text", "found the keys kind, expected a line of bench --results",
              "found null as config, expected an object", "found null as profile.ops[0].share, expected a number",
              "found what is not Unicode, expected UTF-8", "found '[[[[")
    assert len(faults) == len(wanted), faults
    for number, (fault, words) in enumerate(zip(faults, wanted), 1):
        assert f"made.jsonl:{number}: {words}" in fault, fault
    assert not lines_of(result(workload=None, run=None, machine=None)).faults


if __name__ == "__main__":
    run_cases(globals())
