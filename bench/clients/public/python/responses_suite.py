"""openai-agents as it comes: its default model speaks POST /responses. Each agent has two
tools and comes to its end, on every way that /responses is served."""

import asyncio
import os
import unittest

import agents
from openai import AsyncOpenAI
from pydantic import BaseModel

URL = os.environ["FAREBOX_URL"]
KEY = os.environ["FAREBOX_KEY"]
MODELS = os.environ["FAREBOX_RESPONSES_MODELS"].split()

agents.set_tracing_disabled(True)


class Report(BaseModel):
    title: str


class Agents:
    model: str

    def agent(self, **options):
        agents.set_default_openai_client(AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0), use_for_tracing=False)
        return agents.Agent(name="tester", instructions="Be brief.", model=self.model, **options)

    def two_tools(self):
        """Each is offered until it was called, so that the agent comes to its end."""
        called = []

        def offered(name):
            return lambda context, agent: name not in called

        @agents.function_tool(is_enabled=offered("weather"))
        def weather(city: str) -> str:
            """Gives the weather."""
            called.append("weather")
            return "clear"

        @agents.function_tool(is_enabled=offered("time"))
        def time(zone: str) -> str:
            """Gives the time."""
            called.append("time")
            return "noon"

        return called, [weather, time]

    def test_calls_two_tools_and_ends(self):
        for how in ("all", "1"):
            with self.subTest(how=how):
                called, tools = self.two_tools()
                result = asyncio.run(agents.Runner.run(self.agent(tools=tools), f"Weather and time? [[sim tool={how} tokens=9]]"))
                self.assertEqual(sorted(called), ["time", "weather"])
                self.assertEqual(len(result.final_output.split()), 9, result.final_output)

    def test_streams_calls_two_tools_and_ends(self):
        called, tools = self.two_tools()
        agent = self.agent(tools=tools)

        async def run():
            result = agents.Runner.run_streamed(agent, "Weather and time? [[sim tool=1 tokens=9]]")
            text = ""
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    text += event.data.delta
            return text, result.final_output

        text, final = asyncio.run(run())
        self.assertEqual(called, ["weather", "time"])
        self.assertEqual((text, len(final.split())), (final, 9))

    def test_thinks_calls_and_goes_on_with_its_thoughts(self):
        called, tools = self.two_tools()
        settings = agents.ModelSettings(
            reasoning={"effort": "low", "summary": "auto"}, store=False, response_include=["reasoning.encrypted_content"]
        )
        agent = self.agent(tools=tools, model_settings=settings)
        result = asyncio.run(agents.Runner.run(agent, "Weather and time? [[sim tool=1 reasoning=5 tokens=9]]"))
        self.assertEqual(called, ["weather", "time"])
        self.assertEqual(len(result.final_output.split()), 4, result.final_output)

    def test_gives_an_object(self):
        result = asyncio.run(agents.Runner.run(self.agent(output_type=Report), "A report."))
        self.assertIsInstance(result.final_output, Report)


for n, name in enumerate(MODELS):
    globals()[f"Agents{n}"] = type(f"Agents_{name}", (Agents, unittest.TestCase), {"model": name})

if __name__ == "__main__":
    unittest.main()
