#!/usr/bin/env python3
"""Tests scripts/check_language.py on small files with and without words of the list."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_language.py"
sys.path.insert(0, str(SCRIPT.parent))
import language_rules  # noqa: E402


def run(name, text, exceptions="", *options):
    """(exit status, output) of the check of one file."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / name).write_text(text)
        listed = pathlib.Path(folder) / "exceptions.txt"
        listed.write_text(exceptions)
        done = subprocess.run([sys.executable, SCRIPT, "--root", folder, "--exceptions", listed, *options, name],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


# A text per rule that the rule must find, and one that it must not.
SAMPLES = {
    "stand": ("the key stands twice", "x stands for y"),
    "lie": ("the values lie in the arena", "the point lies outside [0, 1)"),
    "beside": ("a file beside it", "a file next to it"),
    "behind": ("the op behind it", "hosts behind a firewall"),
    "want": ("wanted two numbers", "if you want more"),
    "apart": ("sums are apart", "saves 30 seconds apart"),
    "so many": ("at every so many steps", "as many heads as groups"),
    "the least": ("a megabyte is the least", "at least one"),
    "nobody": ("nobody reads it", "no rank reads it"),
    "who": ("who waits yields", "users who train"),
    "draw": ("masks are drawn again", "the script draws an SVG"),
    "at hand": ("the machine at hand", "this machine"),
    "go on": ("the run goes on", "the run continues"),
    "anew": ("it begins anew", "it begins again"),
    "mend": ("mend the file", "amend the file"),
    "take": ("it takes the new one", "it takes 3 ms"),
    "as good as": ("as good as no memory", "as large as the model"),
    "nothing but": ("nothing but a link", "only a link"),
    "the world": ("an error is the world", "the world size"),
    "say": ("the log says it", "the log reports it"),
    "tell": ("an option tells it", "a short text"),
    "word": ("in these words", "the first word of text"),
    "hear": ("a rank that is heard", "a rank that is received"),
    "know": ("the pass knows it", "a known op; users know it"),
    "believe": ("it believes the file", "it reads the file"),
    "like": ("it likes small files", "a file like this"),
    "age": ("no rank ages", "two stages"),
    "born": ("values are born", "values are created"),
    "die": ("buffers die there", "the process dies"),
    "life": ("a buffer's life", "a buffer's lifetime"),
    "meet": ("ranges that meet", "it meets the requirement"),
    "moved on": ("transfers are moved on", "transfers are advanced"),
    "over": ("the run is over.", "the sum is over ranks"),
    "refuse": ("it is refused", "connection refused"),
    "room": ("a room of src", "no room on the device"),
    "house": ("a house", "a codebase"),
    "circle": ("a circle of files", "a cycle of files"),
    "product": ("products of layers", "an inner product"),
    "card": ("on a card", "on a GPU"),
    "twin": ("its small twin", "its small copy"),
    "sweep": ("a sweep over values", "a pass over values"),
    "stretch": ("a stretch of it", "a range of it"),
    "lost rank": ("a rank that is lost", "the loss at step 3"),
    "is no": ("this is no number", "there is no number"),
    "a second": ("bytes a second", "bytes per second; a rank sends"),
    "-ise": ("to normalise text", "noise rises otherwise, elementwise"),
    "-our": ("the behaviour", "the hour of four"),
}


class Rules(unittest.TestCase):
    def test_each_rule_finds_its_words_and_allows_the_others(self):
        self.assertEqual(set(SAMPLES), {rule.label for rule in language_rules.RULES})
        advice = {rule.label: rule.advice for rule in language_rules.RULES}
        _, output = run("a.md", "\n\n".join(bad for bad, _ in SAMPLES.values()) + "\n")
        found = [re.match(r"a\.md:(\d+): .* → (.*)", line).groups() for line in output.splitlines()]
        expected = [(str(2 * i + 1), advice[label]) for i, label in enumerate(SAMPLES)]
        self.assertEqual(found, expected)
        status, output = run("a.md", "\n\n".join(good for _, good in SAMPLES.values()) + "\n")
        self.assertEqual(status, 0, output)

    def test_a_line_names_the_place_the_word_and_the_replacement(self):
        _, output = run("a.md", "# Title\n\nGood text\nthat stands here.\n")
        self.assertIn("a.md:4: stands → is, appears, is listed, is stored", output)

    def test_a_word_that_is_divided_by_a_line_end_is_found(self):
        status, output = run("a.md", "a run goes\non here\n")
        self.assertEqual(status, 1)
        self.assertIn("a.md:1: goes on", output)


class Markdown(unittest.TestCase):
    def test_code_is_skipped(self):
        text = "Text.\n\n```sh\nit stands here\n```\n\n    it stands here\n\nA `stands` span, a [link](stands.md).\n"
        self.assertEqual(run("a.md", text)[0], 0)

    def test_text_after_code_is_read(self):
        self.assertIn("a.md:5: stands", run("a.md", "```sh\nx\n```\n\nit stands\n")[1])
        self.assertIn("a.md:5: stands", run("a.md", "Text\n\n    code\n\nit stands\n")[1])

    def test_list_items_and_tables_are_read(self):
        self.assertIn("a.md:2: beside", run("a.md", "- one\n  beside it\n")[1])
        self.assertIn("a.md:3: beside", run("a.md", "| a | b |\n|---|---|\n| x | beside |\n")[1])


class Sources(unittest.TestCase):
    def test_comments_and_messages_are_read_and_code_is_not(self):
        text = ('int behind = take(lie);  // fine\nconst char* a = "beside";\n'
                'throw Error("the key {} stands twice");\n// Returns what\n// goes on.\n')
        _, output = run("a.cc", text)
        self.assertEqual(output.count("a.cc:"), 2, output)
        self.assertIn("a.cc:3: stands", output)
        self.assertIn("a.cc:5: goes on", output)

    def test_a_comment_starts_with_a_noun_or_a_verb(self):
        self.assertIn("fragment", run("a.h", "bool first;  // of the ranks\n", "", "--count")[1])
        self.assertEqual(run("a.h", "// The first\n// of the ranks.\nbool first;\n")[0], 0)

    def test_identifiers_are_skipped(self):
        self.assertEqual(run("a.cc", "// Calls take() with kStands, behind_it, `beside` and 'lie'.\n")[0], 0)

    def test_python_and_shell(self):
        self.assertIn("a.py:1: beside", run("a.py", '"""A file beside it."""\nbehind = 1\n')[1])
        self.assertIn("a.py:1: beside", run("a.py", "x = 1  # beside it\n")[1])
        self.assertIn("a.sh:2: beside", run("a.sh", "behind=1\n# a file beside it\n")[1])
        self.assertIn("a.sh:1: beside", run("a.sh", 'echo "a file beside it"\n')[1])


class ExceptionsFile(unittest.TestCase):
    def test_an_exception_excuses_its_word_in_its_file(self):
        self.assertEqual(run("a.md", "it stands here\n", "a.md | stand | it stands | a reason\n")[0], 0)
        self.assertEqual(run("a.md", "it stands here\n", "b.md | stand | it stands | a reason\n")[0], 1)

    def test_an_exception_that_excuses_nothing_is_an_error(self):
        status, output = run("a.md", "Text.\n", "a.md | stand | it stands | a reason\n")
        self.assertEqual(status, 1)
        self.assertIn("excuses nothing", output)

    def test_an_exception_needs_a_reason(self):
        self.assertIn("exceptions.txt:1", run("a.md", "Text.\n", "a.md | stand | it stands |\n")[1])

    def test_the_table_counts_per_module(self):
        status, output = run("a.md", "it stands, it stands\n", "", "--count")
        self.assertEqual(status, 0)
        self.assertRegex(output, r"stand\s+1\s+1|stand\s+2\s+2")


if __name__ == "__main__":
    unittest.main()
