# shellcheck shell=bash
# Sourced by the scripts that compare with PyTorch: sets `peer`, a virtual environment with PyTorch and
# transformers from PyPI ($PEER_VENV, else ~/.cache/tessera-peer), and makes it the first time.
# About 5 GB; needs python3-venv.
peer=${PEER_VENV:-$HOME/.cache/tessera-peer}
if [ ! -x "$peer/bin/python" ]; then
  echo "making $peer with PyTorch and transformers (some minutes, about 5 GB)" >&2
  python3 -m venv "$peer" && "$peer/bin/pip" install -q torch transformers tokenizers tiktoken \
    safetensors sentencepiece protobuf megatron-core numpy peft >&2 || {
    echo "peers could not be installed in $peer; install python3-venv, or set PEER_VENV to an" \
      "environment that has torch and transformers" >&2
    rm -rf "$peer"
    exit 1
  }
  "$peer/bin/pip" install -q bitsandbytes >&2 || echo "bitsandbytes cannot be installed here" >&2
fi
