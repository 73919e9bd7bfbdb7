#!/usr/bin/env python3
"""Talks to a server as users of the `openai` package do, and checks what it says.

usage: tests/serve/clients.py PORT EXPECTED     EXPECTED: the greedy text of 24 tokens after "the quick"
Exit code 77: the package is not installed.
"""
import sys

try:
    import openai
except ImportError:
    print("the package openai is not installed")
    sys.exit(77)


def main():
    port, expected = sys.argv[1], sys.argv[2]
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    assert client.models.retrieve(model).id == model

    greedy = {"model": model, "prompt": "the quick", "temperature": 0, "max_tokens": 24}
    whole = client.completions.create(**greedy)
    assert whole.choices[0].text == expected, whole.choices[0].text
    assert whole.usage.completion_tokens == 24 and whole.choices[0].finish_reason == "length"
    events = list(client.completions.create(**greedy, stream=True, stream_options={"include_usage": True}))
    assert "".join(e.choices[0].text for e in events if e.choices) == expected
    assert events[-1].usage.completion_tokens == 24 and not events[-1].choices

    several = client.completions.create(model=model, prompt=["a", "b"], n=2, max_tokens=3, seed=1, logprobs=2)
    assert [c.index for c in several.choices] == [0, 1, 2, 3]
    assert len(several.choices[0].logprobs.token_logprobs) == len(several.choices[0].logprobs.tokens)

    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "the"}]
    chat = {"model": model, "messages": messages, "max_tokens": 16, "seed": 3}
    answer = client.chat.completions.create(**chat, n=2, logprobs=True, top_logprobs=3)
    assert answer.choices[0].message.role == "assistant" and len(answer.choices) == 2
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 3
    text, role = "", None
    for event in client.chat.completions.create(**chat, stream=True):
        delta = event.choices[0].delta
        role = delta.role or role
        text += delta.content or ""
    assert role == "assistant" and text == answer.choices[0].message.content, (text, answer.choices[0])

    def refused(kind, **arguments):
        try:
            client.completions.create(**{**greedy, **arguments})
        except kind as e:
            assert e.body["message"], e
            return e
        raise AssertionError(f"{arguments} was accepted")

    assert refused(openai.NotFoundError, model="other").code == "model_not_found"
    assert refused(openai.BadRequestError, max_tokens=100000).code == "context_length_exceeded"
    refused(openai.BadRequestError, temperature=-1)
    refused(openai.BadRequestError, extra_body={"colour": "red"})
    assert client.completions.create(**greedy, extra_body={"top_k": 3, "min_p": 0.1}).choices[0].text == expected

    # A client that leaves in the middle of a stream.
    with client.completions.create(**{**greedy, "max_tokens": 200}, stream=True) as stream:
        next(iter(stream))
    print("ok")


if __name__ == "__main__":
    main()
