"""POST /responses as the openai package sees it, over every kind of upstream."""

import json
import unittest

import openai
from pydantic import BaseModel

from gateway import (
    LIMITED_KEY, LIMITED_MODEL, LOOSE_MODEL, MODEL, NATIVE_MODEL, PICTURE, POOR_KEY, RESPONSES_MODELS, Checks, connect, connect_async, said,
)

TOOLS = [
    {
        "type": "function", "name": "get_weather", "description": "Weather of a city", "strict": True,
        "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"], "additionalProperties": False,
        },
    },
    {
        "type": "function", "name": "get_time", "description": "Time in a zone", "strict": False,
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
    },
]


class Report(BaseModel):
    title: str
    score: int
    tags: list[str]


class Responses(Checks):
    model: str

    def setUp(self):
        self.client = connect()
        self.addCleanup(self.client.close)

    def create(self, input, **params):
        return self.client.responses.create(model=self.model, input=input, **params)

    def final(self, input, **params):
        with self.client.responses.stream(model=self.model, input=input, **params) as stream:
            return stream.get_final_response()

    def check_answer(self, answer, words, output=None):
        self.assertTrue(answer.id.startswith("resp_"), answer.id)
        self.assertEqual((answer.object, answer.model, answer.status), ("response", self.model, "completed"))
        self.assertEqual((answer.error, answer.incomplete_details), (None, None))
        self.assertEqual(len(answer.output_text.split()), words, answer.output_text)
        message = answer.output[-1]
        self.assertEqual((message.type, message.role, message.status), ("message", "assistant", "completed"))
        self.check_tokens(answer.usage, output)

    def check_tokens(self, usage, output=None):
        self.assertGreater(usage.input_tokens, 0)
        if output is not None:
            self.assertEqual(usage.output_tokens, output)
        self.assertEqual(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        self.assertIsInstance(usage.input_tokens_details.cached_tokens, int)
        self.assertIsInstance(usage.output_tokens_details.reasoning_tokens, int)

    def hand_back(self, input, answer, names):
        """Gives the results of an answer's calls back and asks again."""
        calls = [item for item in answer.output if item.type == "function_call"]
        self.assertEqual([call.name for call in calls], names)
        self.assertEqual(len({call.call_id for call in calls}), len(calls), "two calls have one id")
        for call in calls:
            wanted = {"city", "days"} if call.name == "get_weather" else {"zone"}
            self.assertEqual(set(json.loads(call.arguments)), wanted)
        results = [{"type": "function_call_output", "call_id": c.call_id, "output": '{"result":"clear"}'} for c in calls]
        second = self.create(
            [*input, *answer.output, *results, {"role": "user", "content": said("So?", "tokens=4")}], tools=TOOLS
        )
        self.check_answer(second, 4)
        self.assertGreater(second.usage.input_tokens, answer.usage.input_tokens)

    def test_answers_in_one_piece(self):
        raw = self.client.responses.with_raw_response.create(
            model=self.model, instructions="Be brief.", input=said("Say something.", "tokens=12"), metadata={"a": "b"}
        )
        answer = raw.parse()
        self.check_answer(answer, 12, 12)
        self.assertRegex(answer._request_id, "^[0-9a-f]{32}$")
        self.check_discreet(str(raw.headers))

    def test_goes_on_with_what_it_said(self):
        input = [{"role": "user", "content": said("Say something.", "tokens=3")}]
        first = self.create(input, store=False)
        second = self.create([*input, *first.output, {"role": "user", "content": said("More.", "tokens=5")}])
        self.check_answer(second, 5, 5)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)

    def test_streams_events_that_add_up(self):
        text, number = "", -1
        with self.client.responses.stream(model=self.model, input=said("Say something.", "tokens=20")) as stream:
            for event in stream:
                self.assertGreater(event.sequence_number, number)
                number = event.sequence_number
                if event.type == "response.output_text.delta":
                    text += event.delta
                    self.assertEqual(event.snapshot, text)
            answer = stream.get_final_response()
        self.check_answer(answer, 20, 20)
        self.assertEqual(answer.output_text, text)

    def test_says_that_it_is_incomplete_and_why(self):
        whole = self.create("Say a lot.", max_output_tokens=16)
        end = None
        for event in self.create("Say a lot.", max_output_tokens=16, stream=True):
            if event.type == "response.incomplete":
                end = event.response
        for answer in (whole, end):
            self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
            self.assertTrue(answer.output[-1].status == "incomplete" or self.model == NATIVE_MODEL)
            self.check_tokens(answer.usage, 16)

    def test_parses_structured_output(self):
        whole = self.client.responses.parse(model=self.model, input="A report.", text_format=Report)
        streamed = self.final("A report.", text_format=Report)
        for answer in (whole, streamed):
            self.assertIsInstance(answer.output_parsed, Report)

    def test_parses_arguments_of_functions(self):
        class GetWeather(BaseModel):
            city: str

        answer = self.client.responses.parse(
            model=self.model, input="Weather?", tools=[openai.pydantic_function_tool(GetWeather, name="get_weather")["function"] | {"type": "function"}],
            tool_choice={"type": "function", "name": "get_weather"},
        )
        self.assertIsInstance(answer.output[-1].parsed_arguments["city"], str)

    def test_calls_functions_and_takes_their_results(self):
        input = [{"role": "user", "content": said("Weather and time?", "tool=all")}]
        self.hand_back(input, self.create(input, tools=TOOLS), ["get_weather", "get_time"])
        one = [{"role": "user", "content": "Time?"}]
        choice = {"type": "function", "name": "get_time"}
        self.hand_back(one, self.create(one, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False), ["get_time"])

    def test_streams_parallel_calls_in_fragments(self):
        input = [{"role": "user", "content": said("Weather and time?", "tool=all")}]
        fragments = {}
        with self.client.responses.stream(model=self.model, input=input, tools=TOOLS) as stream:
            for event in stream:
                if event.type == "response.function_call_arguments.delta":
                    fragments.setdefault(event.output_index, []).append(event.delta)
            answer = stream.get_final_response()
        self.assertEqual(len(fragments), 2)
        for index, parts in fragments.items():
            self.assertGreater(len(parts), 1)
            self.assertEqual("".join(parts), answer.output[index].arguments)
        self.hand_back(input, answer, ["get_weather", "get_time"])

    def test_thinks_and_takes_its_thoughts_back(self):
        input = [{"role": "user", "content": said("Say something.", "tokens=25 reasoning=20")}]
        params = {"reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"], "store": False}
        for answer in (self.create(input, **params), self.final(input, **params)):
            self.check_answer(answer, 5, 25)
            thought = answer.output[0]
            self.assertEqual(thought.type, "reasoning")
            self.assertGreaterEqual(len(thought.summary[0].text.split()), 10)
            self.assertTrue(thought.encrypted_content or self.model == MODEL, "there is nothing to hand back")
            self.assertGreater(answer.usage.output_tokens_details.reasoning_tokens, 0)
            again = [*input, *answer.output, {"role": "user", "content": said("Go on.", "tokens=2 reasoning=0")}]
            self.check_answer(self.create(again, **params), 2)

    def test_thinks_before_it_calls_and_takes_both_back(self):
        input = [{"role": "user", "content": said("Weather?", "tool=get_weather reasoning=12")}]
        answer = self.final(input, tools=TOOLS, reasoning={"effort": "low"}, include=["reasoning.encrypted_content"])
        self.assertEqual([item.type for item in answer.output], ["reasoning", "function_call"])
        self.hand_back(input, answer, ["get_weather"])

    def test_takes_a_picture(self):
        content = [
            {"type": "input_text", "text": said("What is it?", "tokens=3")},
            {"type": "input_image", "image_url": PICTURE, "detail": "low"},
        ]
        self.check_answer(self.create([{"role": "user", "content": content}]), 3, 3)

    def test_reports_a_failure_in_mid_stream(self):
        deltas, failed = 0, None
        try:
            for event in self.create(said("Say a lot.", "tokens=30 error_event=1 error_after=10"), stream=True):
                deltas += event.type == "response.output_text.delta"
                if event.type == "response.failed":
                    failed = event.response
                if event.type == "error":  # of an upstream that is passed through
                    failed = event
        except openai.APIError as err:
            self.check_discreet(str(err))
        else:
            self.assertIsNotNone(failed, "nothing tells of the failure")
            self.assertTrue(failed.message if hasattr(failed, "message") else failed.status == "failed")
            self.check_discreet(failed.model_dump_json())
        self.assertGreaterEqual(deltas, 5)
        with self.assertRaises((openai.APIError, RuntimeError)):
            self.final(said("Say a lot.", "tokens=30 error_event=1 error_after=10"))

    def test_hides_a_failure_of_its_upstream(self):
        for status, kind, wanted in (
            (500, openai.InternalServerError, 500), (401, openai.InternalServerError, 503), (429, openai.RateLimitError, 429),
        ):
            for stream in (False, True):
                with self.subTest(status=status, stream=stream), self.assertRaises(kind) as caught:
                    self.create(said("Hm.", f"status={status}"), stream=stream)
                self.check_error(caught.exception, wanted)


for n, name in enumerate(RESPONSES_MODELS):
    globals()[f"Responses{n}"] = type(f"Responses_{name}", (Responses, unittest.TestCase), {"model": name})


class Async(Checks, unittest.IsolatedAsyncioTestCase):
    async def test_streams_and_parses(self):
        async with connect_async() as client:
            async with client.responses.stream(model=MODEL, input=said("Say something.", "tokens=7")) as stream:
                answer = await stream.get_final_response()
            self.assertEqual(len(answer.output_text.split()), 7)
            parsed = await client.responses.parse(model=MODEL, input="A report.", text_format=Report)
            self.assertIsInstance(parsed.output_parsed, Report)


class Refusals(Checks, unittest.TestCase):
    def setUp(self):
        self.client = connect()
        self.addCleanup(self.client.close)

    def refused(self, kind, status, client=None, **params):
        params = {"model": MODEL, "input": "Hm.", **params}
        with self.assertRaises(kind) as caught:
            (client or self.client).responses.create(**params)
        return self.check_error(caught.exception, status)

    def test_invalid_parameters_are_named(self):
        for field, params in (
            ("temperature", {"temperature": 3}), ("input", {"input": []}), ("max_output_tokens", {"max_output_tokens": 0}),
            ("input.0.role", {"input": [{"role": "cook", "content": "Hm."}]}), ("tools.0.name", {"tools": [{"type": "function"}]}),
            ("text.format.schema", {"text": {"format": {"type": "json_schema", "name": "x"}}}),
        ):
            with self.subTest(field=field):
                self.check_issue(self.refused(openai.BadRequestError, 400, **params), field)
        self.refused(openai.NotFoundError, 404, input=[{"type": "item_reference", "id": "msg_1"}])

    def test_have_the_packages_types(self):
        with connect("wrong") as stranger, connect(POOR_KEY) as poor:
            self.refused(openai.AuthenticationError, 401, client=stranger)
            self.assertIn("alance", self.words(self.refused(openai.APIStatusError, 402, client=poor)))
        self.assertIn("nothing", self.words(self.refused(openai.NotFoundError, 404, model="nothing")))

    def test_an_answer_that_breaks_its_schema(self):
        format = {"type": "json_schema", "name": "report", "strict": True, "schema": {
            "type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"], "additionalProperties": False}}
        body = self.refused(
            openai.UnprocessableEntityError, 422, model=LOOSE_MODEL, input=said("A report.", "echo=unfit"), text={"format": format}
        )
        self.assertEqual(body["code"], "OUTPUT_SCHEMA_VIOLATION")

    def test_a_limit(self):
        with connect(LIMITED_KEY) as limited:
            for _ in range(2):
                limited.responses.create(model=LIMITED_MODEL, input=said("Hm.", "tokens=2"))
            self.refused(openai.RateLimitError, 429, client=limited, model=LIMITED_MODEL)


if __name__ == "__main__":
    unittest.main()
