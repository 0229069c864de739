"""How the tests reach the gateway: `make test-long` starts one and sets these
variables; tests/clients/openai_test.go has the config they fit."""

import os
import unittest

import openai


def need(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise SystemExit(f"{name} is not set; these tests are started by: go test -C tests -run TestLongOpenAIPython ./clients")
    return value


URL = need("FAREBOX_URL")
KEY = need("FAREBOX_KEY")
POOR_KEY = need("FAREBOX_POOR_KEY")  # its account has no money
LIMITED_KEY = need("FAREBOX_LIMITED_KEY")  # its account may ask LIMITED_MODEL twice a minute
MODEL = need("FAREBOX_MODEL")
ANTHROPIC_MODEL = need("FAREBOX_ANTHROPIC_MODEL")
EMBEDDING_MODEL = need("FAREBOX_EMBEDDING_MODEL")
LIMITED_MODEL = need("FAREBOX_LIMITED_MODEL")
PLAIN_MODEL = need("FAREBOX_PLAIN_MODEL")  # text only: no tools, no images, no schemas
ALIAS = need("FAREBOX_ALIAS")  # a foreign name of MODEL
LOOSE_MODEL = need("FAREBOX_LOOSE_MODEL")  # its upstream does not see to schemas
NATIVE_MODEL = "sim-responses"  # its upstream speaks /responses itself
RESPONSES_MODELS = need("FAREBOX_RESPONSES_MODELS").split()  # one of each way that /responses is served
MESSAGES_MODELS = need("FAREBOX_MESSAGES_MODELS").split()  # the same of /messages

# What the simulated upstream puts into its error texts to see whether a
# gateway lets it through.
SECRETS = ("org-simsecret0001", "sk-simsecret", "backend-7", "internal.simulated", "simulated.example", "127.0.0.1")

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Time in a zone",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
    },
}

# 64 x 64 black pixels, the smallest image the interface allows.
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAD0lEQVR42mNgGAWjgHwAAAJAAAHgTR1EAAAAAElFTkSuQmCC"
)


def connect(key: str = KEY, **options) -> openai.OpenAI:
    return openai.OpenAI(base_url=URL, api_key=key, **{"max_retries": 0, "timeout": 30, **options})


def connect_async(key: str = KEY, **options) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=URL, api_key=key, **{"max_retries": 0, "timeout": 30, **options})


def said(text: str, scenario: str = "") -> str:
    """A text; what stands in scenario is done by the upstream."""
    return f"{text} [[sim {scenario}]]" if scenario else text


def ask(text: str, scenario: str = "") -> list:
    """One user message; what stands in scenario is done by the upstream."""
    return [{"role": "user", "content": said(text, scenario)}]


class Checks:
    """Assertions that sync and async tests share."""

    def check_usage(self: unittest.TestCase, usage, completion=None):
        self.assertIsNotNone(usage)
        self.assertGreater(usage.prompt_tokens, 0)
        if completion is None:
            self.assertGreater(usage.completion_tokens, 0)
        else:
            self.assertEqual(usage.completion_tokens, completion)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    def check_error(self: unittest.TestCase, err: openai.APIStatusError, status: int) -> dict:
        """Checks what every refusal has and gives its body."""
        self.assertEqual(err.status_code, status, err)
        self.assertRegex(err.request_id or "", "^[0-9a-f]{32}$")
        self.check_discreet(err.response.text + str(err))
        return err.response.json()

    def words(self, body: dict) -> str:
        """The text of a refusal, whether `error` is a text or OpenAI's object."""
        error = body["error"]
        return error if isinstance(error, str) else error["message"]

    def check_discreet(self: unittest.TestCase, text: str):
        for secret in SECRETS:
            self.assertNotIn(secret, text, "the inside of the upstream reached the client")

    def check_issue(self: unittest.TestCase, body: dict, field: str) -> dict:
        found = [i for i in body.get("issues", []) if ".".join(map(str, i["path"])) == field]
        self.assertTrue(found, f"no issue names {field}: {body}")
        return found[0]

    def check_stream(self: unittest.TestCase, chunks: list, model: str, words: int):
        for chunk in chunks:
            self.assertEqual(chunk.object, "chat.completion.chunk")
            self.assertEqual((chunk.id, chunk.created, chunk.model), (chunks[0].id, chunks[0].created, model))
        self.assertTrue(chunks[0].id.startswith("chatcmpl-"), chunks[0].id)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(len(said.split()), words)
        ends = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
        self.assertEqual(ends, ["stop"])
        self.assertEqual(chunks[-1].choices, [], "usage comes last, without choices")
        self.check_usage(chunks[-1].usage, words)
