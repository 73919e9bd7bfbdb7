#!/usr/bin/env python3
"""Tests scripts/run_tutorials.py on small pages: what is run, what is compared, what fails."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "run_tutorials.py"


def run(text):
    """(exit status, output) of a page; `tessera` is a program that prints its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        page, program = pathlib.Path(folder) / "page.md", pathlib.Path(folder) / "tessera"
        page.write_text(text)
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
        done = subprocess.run([sys.executable, SCRIPT, "--program", program, page], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class Tutorials(unittest.TestCase):
    def test_expected_output_is_found(self):
        status, output = run("# T\n\n```sh\ntessera train x\n```\n\n```text\ntrain x\n```\n")
        self.assertEqual(status, 0, output)
        self.assertIn("ok, 1 blocks", output)

    def test_other_output_fails_with_its_line(self):
        status, output = run("# T\n\n```sh\ntessera train x\n```\n\n```text\ntrain y\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("page.md:8: expected", output)

    def test_lines_are_in_order_and_others_may_be_between(self):
        page = "```sh\necho a\necho b\necho c\n```\n```text\n{}\n{}\n```\n"
        self.assertEqual(run(page.format("a", "c"))[0], 0)
        self.assertEqual(run(page.format("c", "a"))[0], 1)

    def test_wildcards_and_numbers(self):
        page = "```sh\necho 'step 3 loss 4.123 lr 1e-3 of 12,345'\n```\n```text\n{}\n```\n"
        self.assertEqual(run(page.format("step 3 loss 5.1 lr 2.0e-4 of 999"))[0], 0)
        self.assertEqual(run(page.format("step 3 …"))[0], 0)
        self.assertEqual(run(page.format("step 4 …"))[0], 1)  # short whole numbers are exact
        self.assertEqual(run(page.format("step 3 norm 5.1 …"))[0], 1)

    def test_a_command_that_fails_fails(self):
        status, output = run("```sh\necho one\n```\n\n```sh\nfalse\necho two\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("page.md:5: the commands failed (exit status 1)", output)

    def test_a_page_that_ends_before_its_last_block_fails(self):
        status, output = run("```sh\nexit 0\n```\n\n```sh\nfalse\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("page.md:1: the commands failed (exit status 0 before the last block", output)

    def test_an_error_within_a_pipe_fails(self):
        self.assertEqual(run("```sh\nfalse | cat\n```\n")[0], 1)

    def test_variables_and_files_stay_from_block_to_block(self):
        self.assertEqual(run("```sh\nx=1\necho hello > f\n```\n\n```sh\ntest $x = 1\ncat f\n```\n```text\nhello\n```\n")[0], 0)

    def test_bash_blocks_are_shown_only(self):
        self.assertEqual(run("```sh\ntrue\n```\n\n```bash\nfalse\n```\n")[0], 0)

    def test_text_that_does_not_follow_a_block_is_not_expected(self):
        self.assertEqual(run("```sh\ntrue\n```\n\nA file:\n\n```text\nhello\n```\n")[0], 0)

    def test_processes_that_a_page_leaves_are_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            written = pathlib.Path(folder) / "pid"
            status, output = run(f"```sh\nsleep 600 &\necho $! > {written}\n```\n")
            self.assertEqual(status, 0, output)
            # A process that was killed may still be listed until its parent has seen it.
            state = subprocess.run(["ps", "-o", "stat=", "-p", written.read_text().strip()], capture_output=True, text=True)
            self.assertIn(state.stdout.strip()[:1], ("", "Z"))

    def test_a_page_without_commands_fails(self):
        self.assertEqual(run("# Nothing\n")[0], 1)


if __name__ == "__main__":
    unittest.main()
