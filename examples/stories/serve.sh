#!/bin/bash
# Serves the chat model over HTTP and asks it with curl, as the openai package would.
# A few seconds after chat_model.sh, which it runs if its model is not in the current folder.
# usage: serve.sh
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need_chat_model

step "the server"
"$tessera" serve runs/chat --port 0 >server.txt 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  grep -q 'http://' server.txt && break
  sleep 0.1
done
cat server.txt
address=$(grep -o 'http://[0-9.]*:[0-9]*' server.txt | head -n 1)

step "its models"
curl --silent --fail "$address/v1/models"
echo

step "a question"
request='{"model": "chat", "temperature": 0, "messages": [{"role": "user", "content": "Where does the delin live?"}]}'
answer=$(curl --silent --fail "$address/v1/chat/completions" -H 'Content-Type: application/json' -d "$request")
echo "$answer"
home=$(grep -oE 'home of a delin is the [a-z]+' text.txt | head -n 1 | grep -oE '[a-z]+$')
grep -q "\"content\": *\"$home\"" <<<"$answer" || { echo "expected the answer '$home'" >&2; exit 1; }

step "the same, token by token"
curl --silent --fail --no-buffer "$address/v1/chat/completions" -H 'Content-Type: application/json' \
  -d "${request%\}}, \"stream\": true}" | tail -n 3

step "the end: the server answers what it has begun, then stops"
kill -TERM $server
wait $server
tail -n 1 server.txt
