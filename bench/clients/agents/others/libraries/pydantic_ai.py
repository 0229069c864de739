import sys


@agent.tool_plain
def write(text: str) -> str:
    """Appends a text to made.txt."""
    with open("made.txt", "a") as file:
        file.write(text)
    return "written"


print(agent.run_sync(sys.argv[1]).output)
