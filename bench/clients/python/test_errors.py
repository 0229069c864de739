"""Refusals and failures as the openai package sees them."""

import os
import unittest

import openai

from gateway import (
    ANTHROPIC_MODEL, EMBEDDING_MODEL, LIMITED_KEY, LIMITED_MODEL, MODEL, PICTURE, PLAIN_MODEL, POOR_KEY, WEATHER,
    Checks, ask, connect,
)


class Errors(Checks, unittest.TestCase):
    def setUp(self):
        self.client = connect()
        self.addCleanup(self.client.close)

    def chat(self, client=None, **params):
        params = {"model": MODEL, "messages": ask("Say something.", "tokens=2"), **params}
        return (client or self.client).chat.completions.create(**params)

    def refused(self, kind, status, call):
        with self.assertRaises(kind) as caught:
            call()
        return caught.exception, self.check_error(caught.exception, status)

    def stranger(self, key="SVC_INFERENCE_KEY_unknown", **options):
        client = connect(key, **options)
        self.addCleanup(client.close)
        return client

    def test_a_range_violation_names_field_and_range(self):
        _, body = self.refused(openai.BadRequestError, 400, lambda: self.chat(temperature=3))
        issue = self.check_issue(body, "temperature")
        self.assertEqual(issue["maximum"], 2)
        self.assertIn(issue["message"], body["details"]["temperature"]["_errors"])

    def test_each_numeric_limit(self):
        limits = {"temperature": -0.1, "top_p": 1.5, "frequency_penalty": 2.5, "presence_penalty": -2.1}
        for field, value in limits.items():
            with self.subTest(field=field):
                _, body = self.refused(openai.BadRequestError, 400, lambda: self.chat(user=field, **{field: value}))
                self.check_issue(body, field)

    def test_max_tokens_names_max_completion_tokens(self):
        err, _ = self.refused(openai.BadRequestError, 400, lambda: self.chat(max_tokens=5))
        self.assertIn("max_completion_tokens", err.response.text)

    def test_messages_that_are_empty_or_of_another_type(self):
        for messages in ([], "Hello"):
            with self.subTest(messages=messages):
                _, body = self.refused(openai.BadRequestError, 400, lambda: self.chat(messages=messages, user="messages"))
                self.check_issue(body, "messages")

    def test_what_the_model_cannot_do(self):
        image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}]
        for params in ({"tools": [WEATHER]}, {"messages": image}, {"logprobs": True}):
            with self.subTest(params=list(params)):
                self.refused(openai.BadRequestError, 400, lambda: self.chat(model=PLAIN_MODEL, **params))

    def test_what_only_the_upstream_refuses(self):
        for model in (MODEL, ANTHROPIC_MODEL):
            _, body = self.refused(
                openai.BadRequestError, 400,
                lambda: self.chat(model=model, messages=ask("Hm.", "status=400"), user="upstream"),
            )
            self.assertIn("temperature", self.words(body))

    def test_a_prompt_that_is_too_long_has_a_code(self):
        err, _ = self.refused(
            openai.BadRequestError, 400, lambda: self.chat(messages=ask("Hm.", "status=400 kind=context"))
        )
        self.assertEqual((err.code, err.param, err.type), ("context_length_exceeded", "messages", "invalid_request_error"))

    def test_an_unknown_or_missing_key(self):
        client = self.stranger()
        for headers in ({}, {"Authorization": openai.omit}, {"Authorization": "Basic eDp5"}):
            for call in (
                lambda: self.chat(client, extra_headers=headers),
                lambda: self.chat(client, stream=True, extra_headers=headers),
                lambda: client.models.list(extra_headers=headers),
                lambda: client.embeddings.create(model=EMBEDDING_MODEL, input="x", extra_headers=headers),
            ):
                self.refused(openai.AuthenticationError, 401, call)

    def test_an_account_without_money(self):
        for stream in (False, True):
            err, body = self.refused(
                openai.APIStatusError, 402, lambda: self.chat(self.stranger(POOR_KEY), stream=stream)
            )
            self.assertIs(type(err), openai.APIStatusError)
            self.assertEqual(body["code"], "INSUFFICIENT_BALANCE")
            self.assertIn("balance", self.words(body).lower())

    def test_an_unknown_model(self):
        _, body = self.refused(openai.NotFoundError, 404, lambda: self.chat(model="no-such-model"))
        self.assertIn("no-such-model", self.words(body))
        self.refused(
            openai.NotFoundError, 404, lambda: self.client.embeddings.create(model="no-such-model", input="x")
        )

    def test_too_many_requests(self):
        client = self.stranger(LIMITED_KEY)
        for left in ("1", "0"):
            raw = client.chat.completions.with_raw_response.create(
                model=LIMITED_MODEL, messages=ask("Once more.", "tokens=2")
            )
            self.assertEqual(raw.headers["x-ratelimit-limit-requests"], "2")
            self.assertEqual(raw.headers["x-ratelimit-remaining-requests"], left)
        err, body = self.refused(openai.RateLimitError, 429, lambda: self.chat(client, model=LIMITED_MODEL))
        self.assertTrue(1 <= int(err.response.headers["retry-after"]) <= 60)
        self.assertEqual(body["code"], "RATE_LIMIT_EXCEEDED")

    def test_a_failing_upstream_is_a_failure_of_the_service(self):
        for model in (MODEL, ANTHROPIC_MODEL):
            for status in (401, 403, 500, 502, 503):
                with self.subTest(model=model, status=status):
                    with self.assertRaises(openai.InternalServerError) as caught:
                        self.chat(model=model, messages=ask("Hm.", f"status={status}"))
                    self.check_error(caught.exception, caught.exception.status_code)

    def test_an_overloaded_upstream_says_when_to_come_back(self):
        for model in (MODEL, ANTHROPIC_MODEL):
            err, _ = self.refused(
                openai.RateLimitError, 429,
                lambda: self.chat(model=model, messages=ask("Hm.", "status=429 retry_after=7")),
            )
            self.assertEqual(err.response.headers["retry-after"], "7")

    def test_an_answer_that_is_cut(self):
        self.refused(
            openai.InternalServerError, 502, lambda: self.chat(messages=ask("Hm.", "tokens=50 truncate=1"))
        )

    def test_the_package_asks_again(self):
        client = self.stranger(os.environ["FAREBOX_KEY"], max_retries=2)
        answer = self.chat(client, messages=ask("Hm.", f"tokens=3 fail_first=1 id=retry-{os.getpid()}"))
        self.check_usage(answer.usage, 3)


if __name__ == "__main__":
    unittest.main()
