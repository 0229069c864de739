"""Calls with the client that openapi-python-client made, in the folder of the first argument."""
import os
import sys

sys.path.insert(0, sys.argv[1])
from made import AuthenticatedClient
from made.api.billing import get_billing_balance
from made.api.chat import post_chat_completions
from made.api.responses import post_responses
from made.models import PostChatCompletionsBody, PostResponsesBody

client = AuthenticatedClient(base_url=os.environ["FAREBOX_URL"], token=os.environ["FAREBOX_KEY"])
ask = {"model": "sim-chat-small", "messages": [{"role": "user", "content": "Hello"}]}
answer = post_chat_completions.sync(client=client, body=PostChatCompletionsBody.from_dict(ask))
response = post_responses.sync(client=client, body=PostResponsesBody.from_dict({"model": "sim-claude", "input": "Hello"}))
refused = post_chat_completions.sync_detailed(client=client, body=PostChatCompletionsBody.from_dict({**ask, "model": "none"}))
balance = get_billing_balance.sync(client=client)
print(answer.choices[0].message.role, response.status, refused.status_code.value, balance.can_consume)
