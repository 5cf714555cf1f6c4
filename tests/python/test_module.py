"""The Python module over the program that PAGEDINFER_BINARY names; unittest and pytest run it."""
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve()
if not os.environ.get("PAGEDINFER_INSTALLED"):  # else the wheel is tried
    sys.path.insert(0, str(HERE.parents[2] / "python"))
import pagedinfer  # noqa: E402


def prompts(count, max_tokens):
    return [{"prompt": f"Nora has {i} apples", "max_tokens": max_tokens, "id": f"row-{i}"} for i in range(count)]


class Module(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.input = self.dir / "in.jsonl"

    def write(self, lines):
        self.input.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def on_command_line(self, *flags):
        subprocess.run([pagedinfer.binary(), "run", "--input", self.input, "--output", self.dir / "single",
                        "--quiet", *flags], check=True, stderr=subprocess.DEVNULL)
        return (self.dir / "single").read_bytes()

    def test_a_file_gives_the_bytes_of_the_command_line(self):
        self.write(prompts(5, 4))
        expected = self.on_command_line("--temperature", "0.7")
        records = pagedinfer.run(self.input, model="story-llama", temperature=0.7)
        self.assertEqual((self.dir / "in.completions.jsonl").read_bytes(), expected)
        self.assertEqual([record["id"] for record in records], [f"row-{i}" for i in range(5)])
        self.assertEqual(list(records), list(pagedinfer.read(records.path)))

    def test_a_shard_is_read_from_the_place_where_it_is_written(self):
        self.write(prompts(5, 1))
        self.assertEqual([record["index"] for record in pagedinfer.run(self.input, shard="1/2")], [1, 3])

    def test_a_table_is_run_and_outputs_of_all_forms_are_read(self):
        table = self.dir / "in.csv"
        table.write_text('id,prompt\r\na,"Nora has ""7""\r\napples, and"\r\nb,\r\n')
        settings = {"max_tokens": 3, "exit_zero_on_error_records": True}
        expected = list(pagedinfer.run(table, **settings))
        self.assertEqual([record["id"] for record in expected], ["a", "b"])
        self.assertTrue((self.dir / "in.completions.jsonl").exists())
        packed = ["x.jsonl.gz"]
        try:
            import zstandard  # noqa: F401
            packed.append("x.jsonl.zst")
        except ImportError:
            pass
        for name in packed:
            self.assertEqual(list(pagedinfer.run(table, output=self.dir / name, **settings)), expected)
            self.assertFalse((self.dir / f"{name}.jsonl").exists())
        rows = pagedinfer.run(table, output=self.dir / "x.csv", **settings)
        for _ in range(2):
            first, second = rows
            for key in ("id", "index", "text", "finish_reason", "prompt_tokens", "completion_tokens"):
                self.assertEqual(first[key], expected[0][key])
            self.assertEqual((first["completion"], first["error_code"]), (0, ""))
            self.assertEqual((second["completion"], second["prompt_tokens"]), (None, None))
            self.assertEqual(second["error_code"], expected[1]["error"]["code"])
            rows = pagedinfer.run(table, output=self.dir / "x.csv", **settings)  # has ended

    def test_an_output_is_kept_or_replaced_as_asked(self):
        self.write(prompts(1, 1))
        output = self.dir / "other.jsonl"
        first = list(pagedinfer.run(self.input, output=output))
        with self.assertRaisesRegex(pagedinfer.PagedinferError, "other.jsonl: the file exists"):
            pagedinfer.run(self.input, output=output, resume=False)
        self.write(prompts(2, 1))
        self.assertEqual(list(pagedinfer.run(self.input, output=output))[:1], first)
        again = list(pagedinfer.run(self.input, output=output, overwrite=True, max_tokens=2, limit=1))
        self.assertEqual([record["id"] for record in again], ["row-0"])

    def test_lines_give_the_records_of_a_file_in_order(self):
        lines = prompts(10000, 1)
        self.write(lines)
        expected = [json.loads(line) for line in self.on_command_line().splitlines()]
        self.assertEqual(list(pagedinfer.run(lines)), expected)

    def test_an_answer_comes_before_the_next_line_is_asked_for(self):
        answered = []

        def lines():
            yield '{"prompt": "Nora", "max_tokens": 1}'
            until = time.monotonic() + 60
            while not answered and time.monotonic() < until:
                time.sleep(0.01)
            yield {"prompt": str(len(answered)), "max_tokens": 1}
        for record in pagedinfer.run(lines()):
            answered.append(record)
        self.assertEqual(answered[1], next(pagedinfer.run([{"prompt": "0"}, {"prompt": "1", "max_tokens": 1}][1:]))
                         | {"index": 1})

    def test_an_error_of_a_line_is_a_record(self):
        records = list(pagedinfer.run(["no JSON", {"prompt": "Nora", "max_tokens": 1}]))
        self.assertEqual(records[0]["error"]["code"], "invalid_json")
        self.assertIn("text", records[1])

    def test_half_a_pair_of_utf_16_fails_its_line_only(self):
        records = list(pagedinfer.run([{"prompt": "\ud800"}, {"prompt": "Nora", "max_tokens": 1}]))
        self.assertEqual(records[0]["error"]["code"], "invalid_utf8")
        self.assertIn("text", records[1])

    def test_what_has_no_lines_is_refused_by_its_type(self):
        class DataFrame:
            columns = ["prompt"]
        for source in ({"prompt": "Nora"}, b"in.jsonl", DataFrame()):
            with self.assertRaisesRegex(TypeError, f"^source: found {type(source).__name__}, expected a path"):
                pagedinfer.run(source)

    def test_what_ends_a_run_is_an_exception_with_its_sentence(self):
        self.write(prompts(1, 1))
        for source in (self.input, prompts(3, 1)):
            with self.assertRaisesRegex(pagedinfer.PagedinferError, "^--bogus: unknown") as caught:
                list(pagedinfer.run(source, bogus=3))
            self.assertEqual(caught.exception.code, 1)
        with self.assertRaisesRegex(pagedinfer.PagedinferError, "none.jsonl: cannot open"):
            pagedinfer.run(self.dir / "none.jsonl")

    def test_a_failure_of_the_lines_is_raised(self):
        def lines():
            yield {"prompt": "Nora", "max_tokens": 1}
            raise KeyError("my own")
        with self.assertRaisesRegex(KeyError, "my own"):
            list(pagedinfer.run(lines()))
        with self.assertRaisesRegex(ValueError, "several lines"):
            list(pagedinfer.run(['{"prompt":\n"Nora"}']))

    def test_settings_become_flags(self):
        flags = pagedinfer.program.flags_of({"max_batch_size": 8, "chat": True, "strict": False, "lora": None,
                                             "stop": ["a", "b"]})
        self.assertEqual(flags, ["--max-batch-size", "8", "--chat", "--stop", "a", "--stop", "b"])

    def test_leaving_an_iteration_leaves_no_process(self):
        many = prompts(10000, 200)
        for leave in (lambda records: records.close(), lambda records: records.__exit__(), lambda records: None):
            records = pagedinfer.run(many)
            next(records)
            child = records._process.child
            leave(records)
            del records
            gc.collect()
            self.assertEqual(child.returncode, -signal.SIGKILL)

    def test_an_interrupted_file_goes_on_with_the_same_bytes(self):
        self.write(prompts(2000, 60))
        code = ("import sys, pagedinfer\n"
                "try: pagedinfer.run(sys.argv[1], quiet=False, progress='off')\n"
                "except KeyboardInterrupt: sys.exit(99)")
        python = subprocess.Popen([sys.executable, "-c", code, self.input], stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        output = self.dir / "in.completions.jsonl"
        until = time.monotonic() + 60
        while not (output.exists() and output.stat().st_size) and time.monotonic() < until:
            time.sleep(0.005)
        python.send_signal(signal.SIGINT)
        told = python.communicate()[1]
        self.assertEqual(python.returncode, 99, told)
        self.assertIn("interrupted: what is finished is in", told)  # it was asked to end, not killed
        self.assertTrue((self.dir / "in.completions.jsonl.part").exists())
        self.assertLess(len(output.read_bytes().splitlines()), 2000)
        pagedinfer.run(self.input)
        self.assertEqual(output.read_bytes(), self.on_command_line())

    def test_progress_goes_to_standard_error_on_request(self):
        code = "import pagedinfer; list(pagedinfer.run([{'prompt': 'a', 'max_tokens': 1}], quiet=%s))"
        for quiet in (True, False):
            told = subprocess.run([sys.executable, "-c", code % quiet], capture_output=True, text=True, check=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
            self.assertEqual(told.stdout, "")
            self.assertEqual("tok/s" in told.stderr or "tokens" in told.stderr, not quiet)

    def pyarrow(self):
        try:
            import pyarrow
            return pyarrow
        except ImportError:
            self.skipTest("there is no pyarrow")

    def test_a_table_keeps_its_columns_and_gets_those_of_the_answers(self):
        pa = self.pyarrow()
        table = pa.table({"question": ["Nora", None, "Tom"], "max_tokens": [2, 2, 3], "label": [7, 8, 9]})
        done = pagedinfer.run(table, prompt="question")
        self.assertEqual(done.column_names, ["question", "max_tokens", "label", "text", "finish_reason",
                                             "prompt_tokens", "completion_tokens", "error"])
        self.assertEqual(done.select(table.column_names), table)
        lines = [{"prompt": "Nora", "max_tokens": 2}, {"max_tokens": 2}, {"prompt": "Tom", "max_tokens": 3}]
        records = list(pagedinfer.run(lines))
        self.assertEqual(done["text"].to_pylist(), [record.get("text") for record in records])
        self.assertRegex(done["error"].to_pylist()[1], "^missing_prompt: ")
        self.assertEqual(done["completion_tokens"].to_pylist(), [2, None, 3])
        with self.assertRaisesRegex(ValueError, "^text: the table has"):
            pagedinfer.run(done)

    def test_other_columns_of_a_table_change_no_answer(self):
        pa = self.pyarrow()
        bare = {"question": ["Nora", "Tom", None], "max_tokens": [1, 2, 2], "temperature": [float("nan"), 0.0, 0.0]}
        nan, infinity = float("nan"), float("inf")
        other = {"prompt": ["a", "b", "c"], "score": [nan, infinity, 1.0], "vector": [[nan], [infinity], None],
                 "image": [b"\xff", b"", None], "day": pa.array([0, 1, 2], pa.date32())}
        done = pagedinfer.run(pa.table({**bare, **other}), prompt="question")
        self.assertEqual(done["text"], pagedinfer.run(pa.table(bare), prompt="question")["text"])
        self.assertEqual([error and error.split(":")[0] for error in done["error"].to_pylist()],
                         [None, None, "missing_prompt"])
        batch = pagedinfer.run(pa.RecordBatch.from_pydict(bare), prompt="question")
        self.assertEqual(batch["text"], done["text"])

    def test_rows_of_a_template_keep_their_keys_and_a_null_is_a_column(self):
        settings = {"prompt_template": "{{ name or 'Tom' }} has", "max_tokens": 2}
        rows = [{"name": "Nora", "temperature": "high"}, {"name": None, "temperature": 1}, {"nam": "Nora"}]
        expected = [record["text"] for record in pagedinfer.run([{"prompt": "Nora has"}, {"prompt": "Tom has"}],
                                                                max_tokens=2)]
        records = list(pagedinfer.run(rows, keep=["name", "temperature"], **settings))
        self.assertEqual([record["text"] for record in records[:2]], expected)
        self.assertEqual([record["input"] for record in records], [*rows[:2], {}])
        self.assertEqual(records[2]["error"]["code"], "undefined_column")
        table = self.pyarrow().table({"name": ["Nora", None], "prompt": ["a", "b"], "temperature": ["high", "low"]})
        self.assertEqual(pagedinfer.run(table, **settings)["text"].to_pylist(), expected)

    def test_a_table_that_would_give_other_answers_is_refused(self):
        pa = self.pyarrow()
        table = pa.table({"prompt": ["Nora", "Tom"], "bytes": [b"Nora", b"Tom"]})
        with self.assertRaisesRegex(ValueError, "^bytes: found a column of binary, expected strings"):
            pagedinfer.run(table, prompt="bytes")
        for setting in ({"limit": 1}, {"shard": "0/2"}):
            with self.assertRaisesRegex(ValueError, "^(limit|shard): a table is completed whole"):
                pagedinfer.run(table, **setting)


if __name__ == "__main__":
    unittest.main()
