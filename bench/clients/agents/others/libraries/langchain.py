import sys

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool


@tool
def write(text: str) -> str:
    """Appends a text to made.txt."""
    with open("made.txt", "a") as file:
        file.write(text)
    return "written"


messages = [HumanMessage(sys.argv[1])]
while True:
    answer = None
    for part in model.bind_tools([write]).stream(messages):
        answer = part if answer is None else answer + part
    messages.append(answer)
    if not answer.tool_calls:
        break
    messages += [write.invoke(call) for call in answer.tool_calls]
print(answer.text)
