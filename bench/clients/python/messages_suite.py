"""POST /messages as Anthropic's package sees it, over every kind of upstream."""

import unittest

import anthropic
from anthropic import beta_tool
from pydantic import BaseModel

from gateway import KEY, LIMITED_KEY, LIMITED_MODEL, MESSAGES_MODELS, MODEL, PICTURE, POOR_KEY, URL, Checks, ask

TOOLS = [
    {
        "name": "get_weather", "description": "Weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {
        "name": "get_time", "description": "Time in a zone",
        "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
    },
]
THINKING = {"type": "enabled", "budget_tokens": 2000}


class Report(BaseModel):
    title: str
    score: int


def connect(kind=anthropic.Anthropic, **options):
    return kind(base_url=URL.removesuffix("/v1"), **{"api_key": KEY, "max_retries": 0, "timeout": 30, **options})


class Refused(Checks):
    def check_refused(self, kind, status, type, call):
        with self.assertRaises(kind) as caught:
            call()
        err = caught.exception
        self.assertEqual((err.status_code, err.body["error"]["type"]), (status, type))
        self.assertRegex(err.request_id or "", "^[0-9a-f]{32}$")
        self.check_discreet(str(err))
        return err


class Messages(Refused):
    model: str

    def setUp(self):
        self.client = connect()
        self.addCleanup(self.client.close)

    def create(self, messages, **params):
        return self.client.messages.create(**{"model": self.model, "max_tokens": 4000, "messages": messages, **params})

    def stream(self, messages, **params):
        return self.client.messages.stream(**{"model": self.model, "max_tokens": 4000, "messages": messages, **params})

    def final(self, messages, **params):
        with self.stream(messages, **params) as stream:
            return stream.get_final_message()

    def check_answer(self, answer, words):
        self.assertTrue(answer.id.startswith("msg_"), answer.id)
        self.assertEqual((answer.type, answer.role, answer.model, answer.stop_reason), ("message", "assistant", self.model, "end_turn"))
        self.assertEqual(len(answer.content[-1].text.split()), words, answer.content[-1])
        self.assertGreater(answer.usage.input_tokens, 0)
        self.assertGreater(answer.usage.output_tokens, 0)

    def hand_back(self, messages, answer, names):
        """Gives the results of an answer's calls back and asks again."""
        calls = [block for block in answer.content if block.type == "tool_use"]
        self.assertEqual((answer.stop_reason, [c.name for c in calls]), ("tool_use", names))
        self.assertEqual(len({c.id for c in calls}), len(calls), "two calls have one id")
        for call in calls:
            self.assertEqual(set(call.input), {"city"} if call.name == "get_weather" else {"zone"})
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": "clear"} for c in calls]
        again = [
            *messages, {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [*results, {"type": "text", "text": "So? [[sim tokens=4]]"}]},
        ]
        self.check_answer(self.create(again, tools=TOOLS), 4)

    def test_answers_in_one_piece(self):
        raw = self.client.messages.with_raw_response.create(
            model=self.model, max_tokens=4000, messages=ask("Say something.", "tokens=12"), stop_sequences=["END"],
            system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            metadata={"user_id": "u1"}, extra_body={"temperature": 0.5},
        )
        answer = raw.parse()
        self.check_answer(answer, 12)
        self.assertEqual(answer.usage.output_tokens, 12)
        self.check_discreet(str(raw.headers))

    def test_streams_events_that_add_up(self):
        with self.stream(ask("Say something.", "tokens=20")) as stream:
            text = "".join(stream.text_stream)
            answer = stream.get_final_message()
            self.assertEqual(stream.get_final_text(), text)
        self.check_answer(answer, 20)
        self.assertEqual((answer.content[-1].text, answer.usage.output_tokens), (text, 20))

    def test_says_that_it_was_cut_by_its_limit(self):
        for answer in (self.create(ask("Say a lot."), max_tokens=7), self.final(ask("Say a lot."), max_tokens=7)):
            self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", 7))

    def test_calls_tools_and_takes_their_results(self):
        messages = ask("Weather and time?", "tool=all")
        self.hand_back(messages, self.create(messages, tools=TOOLS), ["get_weather", "get_time"])
        one, choice = ask("Time?"), {"type": "tool", "name": "get_time", "disable_parallel_tool_use": True}
        self.hand_back(one, self.create(one, tools=TOOLS, tool_choice=choice), ["get_time"])

    def test_streams_parallel_calls_in_fragments(self):
        messages = ask("Weather and time?", "tool=all")
        with self.stream(messages, tools=TOOLS) as stream:
            fragments = sum(event.type == "input_json" for event in stream)
            answer = stream.get_final_message()
        self.assertGreater(fragments, 3)
        self.hand_back(messages, answer, ["get_weather", "get_time"])

    def test_runs_the_packages_own_loop_of_tools(self):
        called = []

        @beta_tool
        def get_weather(city: str) -> str:
            """Weather of a city."""
            called.append(city)
            return "clear"

        runner = self.client.beta.messages.tool_runner(
            model=self.model, max_tokens=4000, max_iterations=2, tools=[get_weather], messages=ask("Weather?", "tool=get_weather")
        )
        turns = list(runner)  # a simulated model may call its tool for ever
        self.assertEqual((len(turns), turns[0].stop_reason), (2, "tool_use"))
        self.assertTrue(called)

    def test_thinks_and_takes_its_thoughts_back_with_their_signature(self):
        messages = ask("Say something.", "tokens=25 reasoning=20")
        for answer in (self.create(messages, thinking=THINKING), self.final(messages, thinking=THINKING)):
            self.check_answer(answer, 5)
            thought = answer.content[0]
            self.assertEqual(thought.type, "thinking")
            self.assertGreaterEqual(len(thought.thinking.split()), 10)
            self.assertTrue(thought.signature or self.model == MODEL, "there is no signature to hand back")
            self.assertEqual(answer.usage.output_tokens, 25)
            again = [*messages, {"role": "assistant", "content": answer.content}, *ask("Go on.", "tokens=2 reasoning=0")]
            self.check_answer(self.create(again, thinking=THINKING), 2)

    def test_thinks_before_it_calls_and_takes_both_back(self):
        messages = ask("Weather?", "tool=get_weather reasoning=12")
        answer = self.final(messages, tools=TOOLS, thinking=THINKING)
        self.assertEqual([block.type for block in answer.content], ["thinking", "tool_use"])
        self.hand_back(messages, answer, ["get_weather"])

    def test_parses_structured_output(self):
        answer = self.client.messages.parse(
            model=self.model, max_tokens=4000, messages=ask("A report."), output_format=Report
        )
        self.assertIsInstance(answer.parsed_output, Report)
        with self.stream(ask("A report."), output_format=Report) as stream:
            self.assertIsInstance(stream.get_final_message().parsed_output, Report)

    def test_takes_a_picture(self):
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE.split(",")[1]}
        content = [{"type": "image", "source": source}, {"type": "text", "text": "What is it? [[sim tokens=3]]"}]
        self.check_answer(self.create([{"role": "user", "content": content}]), 3)

    def test_counts_tokens(self):
        def count(messages, **params):
            return self.client.messages.count_tokens(model=self.model, messages=messages, **params).input_tokens

        few, many, tools = count(ask("Hello.")), count(ask("Hello. " * 100)), count(ask("Hello."), tools=TOOLS)
        self.assertTrue(3 <= few <= 30 and 190 <= many <= 260 and tools > few + 20, (few, many, tools))

    def test_reports_a_failure_in_mid_stream(self):
        deltas = 0
        with self.assertRaises(anthropic.APIError) as caught:
            with self.stream(ask("Say a lot.", "tokens=30 error_event=1 error_after=10")) as stream:
                for event in stream:
                    deltas += event.type == "text"
        self.assertGreaterEqual(deltas, 5)
        self.check_discreet(str(caught.exception))

    def test_hides_a_failure_of_its_upstream(self):
        for status, kind, wanted, type in (
            (500, anthropic.InternalServerError, 500, "api_error"), (401, anthropic.InternalServerError, 503, "overloaded_error"),
            (429, anthropic.RateLimitError, 429, "overloaded_error"),
        ):
            with self.subTest(status=status):
                messages = ask("Hm.", f"status={status}")
                self.check_refused(kind, wanted, type, lambda: self.create(messages))
                self.check_refused(kind, wanted, type, lambda: self.final(messages))


for n, name in enumerate(MESSAGES_MODELS):
    globals()[f"Messages{n}"] = type(f"Messages_{name}", (Messages, unittest.TestCase), {"model": name})


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_streams(self):
        async with connect(anthropic.AsyncAnthropic) as client:
            async with client.messages.stream(model=MODEL, max_tokens=100, messages=ask("Say something.", "tokens=7")) as stream:
                answer = await stream.get_final_message()
            self.assertEqual(len(answer.content[-1].text.split()), 7)


class Refusals(Refused, unittest.TestCase):
    def refused(self, kind, status, type, options=None, **params):
        with connect(**(options or {})) as client:
            params = {"model": MODEL, "max_tokens": 100, "messages": ask("Hm.", "tokens=2"), **params}
            return self.check_refused(kind, status, type, lambda: client.messages.create(**params))

    def test_invalid_parameters_are_named(self):
        for field, params in (
            ("temperature", {"extra_body": {"temperature": 3}}), ("max_tokens", {"max_tokens": 0}), ("messages", {"messages": []}),
            ("messages.0.role", {"messages": [{"role": "cook", "content": "Hm."}]}),
        ):
            with self.subTest(field=field):
                self.assertIn(field, str(self.refused(anthropic.BadRequestError, 400, "invalid_request_error", **params)))

    def test_have_the_packages_types(self):
        self.refused(anthropic.AuthenticationError, 401, "authentication_error", {"api_key": "wrong"})
        self.refused(anthropic.APIStatusError, 402, "billing_error", {"api_key": POOR_KEY})
        self.refused(anthropic.NotFoundError, 404, "not_found_error", model="nothing")

    def test_takes_the_key_as_a_bearer_token_too(self):
        with connect(api_key=None, auth_token=KEY) as client:
            client.messages.create(model=MODEL, max_tokens=100, messages=ask("Hm.", "tokens=2"))

    def test_a_limit(self):
        with connect(api_key=LIMITED_KEY) as limited:
            for _ in range(2):
                limited.messages.create(model=LIMITED_MODEL, max_tokens=100, messages=ask("Hm.", "tokens=2"))
        self.refused(anthropic.RateLimitError, 429, "rate_limit_error", {"api_key": LIMITED_KEY}, model=LIMITED_MODEL)


if __name__ == "__main__":
    unittest.main()
