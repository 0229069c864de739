"""Chat as the openai package sees it, without and with asyncio."""

import asyncio
import json
import time
import unittest

import openai
from pydantic import BaseModel

from gateway import (
    ALIAS, ANTHROPIC_MODEL, MODEL, PICTURE, TIME, WEATHER, Checks, ask, connect, connect_async,
)


class Report(BaseModel):
    title: str
    score: int
    tags: list[str]


class Dialect(Checks):
    """Clients must not notice which dialect the upstream of a model speaks."""

    model: str

    def setUp(self):
        self.client = connect()
        self.addCleanup(self.client.close)

    def create(self, messages, **params):
        return self.client.chat.completions.create(model=self.model, messages=messages, **params)

    def test_answers_in_one_piece(self):
        before = int(time.time())
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.model, messages=[{"role": "system", "content": "Be brief."}, *ask("Say something.", "tokens=12")]
        )
        answer = raw.parse()
        self.assertTrue(answer.id.startswith("chatcmpl-"), answer.id)
        self.assertEqual((answer.object, answer.model), ("chat.completion", self.model))
        self.assertTrue(before - 1 <= answer.created <= before + 60, answer.created)
        self.assertEqual(len(answer.choices), 1)
        choice = answer.choices[0]
        self.assertEqual((choice.index, choice.finish_reason, choice.message.role), (0, "stop", "assistant"))
        self.assertEqual(len(choice.message.content.split()), 12)
        self.check_usage(answer.usage, 12)
        self.assertRegex(answer._request_id, "^[0-9a-f]{32}$")
        self.check_discreet(str(raw.headers))

    def test_stops_at_max_completion_tokens(self):
        answer = self.create(ask("Say a lot."), max_completion_tokens=7)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.check_usage(answer.usage, 7)

    def test_streams_chunks_as_they_are_made(self):
        arrived, chunks = [], []
        with self.create(ask("Say something.", "tokens=20 gap_ms=20"), stream=True) as stream:
            for chunk in stream:
                arrived.append(time.monotonic())
                chunks.append(chunk)
        self.assertGreater(arrived[-1] - arrived[0], 0.15, "20 chunks made 20 ms apart were held back")
        self.check_stream(chunks, self.model, 20)

    def test_shows_usage_unless_told_not_to(self):
        for options, shown in (({"include_usage": True}, 1), (openai.NOT_GIVEN, 1), ({"include_usage": False}, 0)):
            with self.subTest(options=options):
                chunks = list(self.create(ask("Say something.", "tokens=5"), stream=True, stream_options=options))
                self.assertEqual(sum(c.usage is not None for c in chunks), shown)
                self.assertEqual(sum(not c.choices for c in chunks), shown)

    def test_calls_a_tool_and_takes_its_result(self):
        messages = ask("Weather in Oslo?")
        first = self.create(
            messages, tools=[WEATHER, TIME], tool_choice={"type": "function", "function": {"name": "get_weather"}}
        )
        choice = first.choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        (call,) = choice.message.tool_calls
        self.assertEqual((call.type, call.function.name), ("function", "get_weather"))
        self.assertEqual(set(json.loads(call.function.arguments)), {"city", "days"})
        self.check_usage(first.usage)

        messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": '{"sky":"clear"}'}]
        second = self.create(messages, tools=[WEATHER, TIME])
        self.assertEqual(second.choices[0].finish_reason, "stop")
        self.assertTrue(second.choices[0].message.content)

    def test_streams_tool_calls_in_fragments(self):
        fragments = 0
        with self.client.chat.completions.stream(
            model=self.model, messages=ask("Weather and time?", "tool=all"), tools=[WEATHER, TIME]
        ) as stream:
            for event in stream:
                fragments += event.type == "tool_calls.function.arguments.delta"
            answer = stream.get_final_completion()
        calls = answer.choices[0].message.tool_calls
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        self.assertEqual([c.function.name for c in calls], ["get_weather", "get_time"])
        self.assertEqual(set(json.loads(calls[0].function.arguments)), {"city", "days"})
        self.assertEqual(set(json.loads(calls[1].function.arguments)), {"zone"})
        self.assertEqual(len({c.id for c in calls} - {None, ""}), 2)
        self.assertGreater(fragments, 4)
        self.check_usage(answer.usage)

    def test_answers_with_json_that_fits_a_schema(self):
        answer = self.client.chat.completions.parse(model=self.model, messages=ask("Report."), response_format=Report)
        self.assertIsInstance(answer.choices[0].message.parsed, Report)
        with self.client.chat.completions.stream(
            model=self.model, messages=ask("Report."), response_format=Report
        ) as stream:
            streamed = stream.get_final_completion()
        self.assertEqual(streamed.choices[0].message.parsed, answer.choices[0].message.parsed)

    def test_takes_an_image(self):
        answer = self.create([{
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this? [[sim tokens=6]]"},
                {"type": "image_url", "image_url": {"url": PICTURE}},
            ],
        }])
        self.check_usage(answer.usage, 6)
        self.assertGreater(answer.usage.prompt_tokens, 85, "the image is part of the prompt")

    def test_shows_reasoning_apart_from_the_answer(self):
        answer = self.create(ask("Think.", "tokens=24 reasoning=8"), reasoning_effort="low")
        message = answer.choices[0].message
        self.assertEqual(len(message.reasoning_content.split()), 8)
        self.assertEqual(len(message.content.split()), 16)
        self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, 8)
        self.check_usage(answer.usage, 24)

    def test_ends_a_stream_that_is_left_early(self):
        with self.create(ask("Say a lot.", "tokens=500 gap_ms=20"), stream=True) as stream:
            for _, _chunk in zip(range(4), stream):
                pass
        self.assertTrue(stream.response.is_closed)

        with self.client.chat.completions.with_streaming_response.create(
            model=self.model, messages=ask("Say a lot.", "tokens=500 gap_ms=20"), stream=True
        ) as response:
            self.assertEqual(response.status_code, 200)
            self.assertTrue(response.headers["content-type"].startswith("text/event-stream"))
            for _, line in zip(range(4), response.iter_lines()):
                self.assertTrue(line == "" or line.startswith("data: "), line)

    def test_gives_up_when_the_answer_takes_too_long(self):
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.3).chat.completions.create(
                model=self.model, messages=ask("Wait.", "delay_ms=5000")
            )

    def test_reports_a_failure_in_mid_stream(self):
        for fault in ("error_event=1 error_after=5", "cut=fin cut_after=5", "cut=rst cut_after=5"):
            with self.subTest(fault=fault):
                said = ""
                with self.assertRaises(openai.APIError) as caught:
                    for chunk in self.create(ask("Say a lot.", f"tokens=40 gap_ms=5 {fault}"), stream=True):
                        said += (chunk.choices and chunk.choices[0].delta.content) or ""
                self.assertIn(caught.exception.code, ("model_overloaded", "upstream_error"), repr(caught.exception))
                self.assertTrue(caught.exception.message and caught.exception.type)
                self.check_discreet(str(caught.exception.body))
                self.assertEqual(len(said.split()), 5, said)


class OpenAIDialect(Dialect, unittest.TestCase):
    model = MODEL

    def test_gives_n_choices(self):
        answer = self.create(ask("Say something.", "tokens=6"), n=3)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        self.check_usage(answer.usage, 18)
        said, usage = ["", ""], None
        for chunk in self.create(ask("Say something.", "tokens=6"), n=2, stream=True):
            for choice in chunk.choices:
                said[choice.index] += choice.delta.content or ""
            usage = chunk.usage or usage
        self.assertEqual([len(s.split()) for s in said], [6, 6])
        self.check_usage(usage, 12)

    def test_knows_a_model_by_its_foreign_name(self):
        for name in (ALIAS, f"{MODEL}:strip_thinking_response=true"):
            answer = self.client.chat.completions.create(model=name, messages=ask("Say something.", "tokens=4"))
            self.check_usage(answer.usage, 4)

    def test_passes_unknown_fields(self):
        answer = self.create(
            ask("Say something.", "tokens=4"), user="someone", metadata={"order": "17"}, store=False,
            extra_body={"made_up_field": {"deep": [1, 2]}},
        )
        self.check_usage(answer.usage, 4)


class AnthropicDialect(Dialect, unittest.TestCase):
    model = ANTHROPIC_MODEL


class Async(Checks, unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = connect_async()
        self.addAsyncCleanup(self.client.close)

    async def create(self, model, messages, **params):
        return await self.client.chat.completions.create(model=model, messages=messages, **params)

    async def test_answers_many_at_once(self):
        answers = await asyncio.gather(*(
            self.create(MODEL, ask(f"Call {i}.", f"tokens={i + 1} delay_ms=30")) for i in range(20)
        ))
        for i, answer in enumerate(answers):
            self.check_usage(answer.usage, i + 1)

    async def test_streams_many_at_once(self):
        async def one(model, words):
            stream = await self.create(model, ask("Say something.", f"tokens={words} gap_ms=10"), stream=True)
            self.check_stream([chunk async for chunk in stream], model, words)

        await asyncio.gather(*(one(model, 5 + i) for i in range(5) for model in (MODEL, ANTHROPIC_MODEL)))

    async def test_streams_tool_calls(self):
        for model in (MODEL, ANTHROPIC_MODEL):
            async with self.client.chat.completions.stream(
                model=model, messages=ask("Weather and time?", "tool=all"), tools=[WEATHER, TIME]
            ) as stream:
                answer = await stream.get_final_completion()
            self.assertEqual([c.function.name for c in answer.choices[0].message.tool_calls], ["get_weather", "get_time"])

    async def test_ends_a_stream_that_is_left_early(self):
        for model in (MODEL, ANTHROPIC_MODEL):
            async with await self.create(model, ask("Say a lot.", "tokens=500 gap_ms=20"), stream=True) as stream:
                async for chunk in stream:
                    if chunk.choices and chunk.choices[0].delta.content:
                        break
            self.assertTrue(stream.response.is_closed)
            async with self.client.chat.completions.with_streaming_response.create(
                model=model, messages=ask("Say a lot.", "tokens=500 gap_ms=20"), stream=True
            ) as response:
                async for _line in response.iter_lines():
                    break

    async def test_leaves_when_its_task_is_cancelled(self):
        for scenario in ("delay_ms=5000", "tokens=500 slow_body=500"):
            task = asyncio.create_task(self.create(MODEL, ask("Wait.", scenario)))
            await asyncio.sleep(0.2)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

    async def test_gives_typed_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            await self.create(MODEL, ask("Say something."), temperature=3)
        self.check_issue(self.check_error(caught.exception, 400), "temperature")
        async with connect_async("SVC_INFERENCE_KEY_unknown") as stranger:
            with self.assertRaises(openai.AuthenticationError) as caught:
                await stranger.models.list()
        self.check_error(caught.exception, 401)


if __name__ == "__main__":
    unittest.main()
