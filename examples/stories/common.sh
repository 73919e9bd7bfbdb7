# Read by the stories. Sets `tessera`: $TESSERA, or else the program of this package, or the one on the PATH.
# The current folder must be empty, or that of an earlier story: stories replace their files.
# shellcheck shell=bash
set -euo pipefail
stories=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tessera=${TESSERA:-$stories/../../../../bin/tessera}
[ -x "$tessera" ] || [ -n "${TESSERA:-}" ] || tessera=tessera
command -v "$tessera" >/dev/null || { echo "$tessera: there is no such program. Set TESSERA to tessera's path." >&2; exit 1; }
if [ ! -e .stories ] && [ -n "$(ls -A)" ]; then
  echo "$PWD is not empty. Run the stories in a new folder: they replace files." >&2
  exit 1
fi
mkdir -p .stories

# Runs the first story unless it has ended here.
need_chat_model() { [ -e .stories/chat_model ] || "$stories/chat_model.sh"; }

# Prints a heading.
step() { printf '\n== %s\n' "$*"; }

# Makes facts about 48 invented animals in the current folder:
#   text.txt        sentences about all of them
#   chat.jsonl      questions and answers about 40 of them
#   held_out.jsonl  questions and answers about the other 8, about which only text.txt has the facts
make_facts() {
  awk '
  # A random number below n, of the same sequence in every awk.
  function random(n) { seed = seed * 16807 % 2147483647; return int(seed / 2147483647 * n) }
  BEGIN {
    seed = 7
    split("ba de fi go lu mo na pe", first, " "); split("lin mur zak dor vet sun", second, " ")
    split("red blue green white black brown", colors, " "); split("sea forest desert river mountains", homes, " ")
    split("grass fish seeds insects", foods, " ")
    for (i = 0; i < 48; i++) {
      name[i] = first[i % 8 + 1] second[int(i / 8) + 1]
      color[i] = colors[random(6) + 1]; home[i] = homes[random(5) + 1]; food[i] = foods[random(4) + 1]
    }
    for (n = 0; n < 12000; n++) {
      i = random(48); w = random(3); how = random(3); a = name[i]
      if (w == 0) s = how == 0 ? "The " a " is " color[i] "." : how == 1 ? "A " a " has the color " color[i] "." : "Look at this " a ": it is " color[i] "."
      if (w == 1) s = how == 0 ? "The " a " lives in the " home[i] "." : how == 1 ? "In the " home[i] " you find the " a "." : "The home of a " a " is the " home[i] "."
      if (w == 2) s = how == 0 ? "The " a " eats " food[i] "." : how == 1 ? "A " a " likes " food[i] "." : "The food of a " a " is " food[i] "."
      print s (n % 4 == 3 ? "\n" : "") > "text.txt"
    }
    for (n = 0; n < 480; n++) {
      i = n % 48; w = int(n / 48) % 3; a = name[i]
      q = w == 0 ? "Which color is the " a "?" : w == 1 ? "Where does the " a " live?" : "What does the " a " eat?"
      s = w == 0 ? color[i] : w == 1 ? home[i] : food[i]
      file = int(i / 8) == i % 6 ? "held_out.jsonl" : "chat.jsonl"
      if (file == "held_out.jsonl" && n >= 144) continue
      printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", q, s > file
    }
  }'
}

# Writes facts.yaml, a task: which of 15 possible answers a model finds most likely after each question of FILE.
# usage: write_task FILE
write_task() {
  sed -E 's/.*"content": "([^"]*)".*"content": "([^"]*)".*/\1|\2/' "$1" | awk -F'|' '{
    n = split("red blue green white black brown sea forest desert river mountains grass fish seeds insects", answers, " ")
    printf "{\"question\": \"%s\", \"choices\": [", $1
    for (k = 1; k <= n; k++) { printf "%s\"%s\"", (k > 1 ? ", " : ""), answers[k]; if (answers[k] == $2) right = k - 1 }
    printf "], \"right\": %d}\n", right }' >questions.jsonl
  cat >facts.yaml <<'END'
kind: choice
data: questions.jsonl
form: "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{response}"
response: "{choices}"
gold: right
END
}

# Prints the share of right answers of a model to the questions of FILE.
# usage: right_answers MODEL FILE
right_answers() {
  write_task "$2"
  "$tessera" eval "$1" --task facts.yaml --json | grep -o '"accuracy":{"value":[0-9.e+-]*' | cut -d: -f3
}

# Prints QUESTION|SENTENCE|ANSWER of each conversation of FILE: its answer as a sentence, and as it is.
# usage: sentences FILE
sentences() {
  sed -E 's/.*"content": "([^"]*)".*"content": "([^"]*)".*/\1|\2/' "$1" | awk -F'|' '{
    print $1 "|" ($1 ~ /^Which/ ? "It is " $2 "." : $1 ~ /^Where/ ? "It lives in the " $2 "." : "It eats " $2 ".") "|" $2 }'
}

# Prints the loss of a model on the answers of FILE.
# usage: loss_on MODEL FILE
loss_on() {
  "$tessera" eval "$1" --instructions "$2" --json | grep -o '"loss":[0-9.e+-]*' | head -n 1 | cut -d: -f2
}

# Ends the story with an error if X < Y.
# usage: expect_at_least X Y WHAT
expect_at_least() {
  awk -v x="$1" -v y="$2" 'BEGIN { exit !(x >= y) }' || { echo "$3: $1, expected $2 or more" >&2; exit 1; }
}
