import asyncio
import sys

from agents import Runner, function_tool


@function_tool
def write(text: str) -> str:
    """Appends a text to made.txt."""
    with open("made.txt", "a") as file:
        file.write(text)
    return "written"


async def run():
    agent.tools.append(write)
    result = Runner.run_streamed(agent, sys.argv[1])
    async for _ in result.stream_events():
        pass
    print(result.final_output)


asyncio.run(run())
