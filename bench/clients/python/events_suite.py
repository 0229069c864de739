"""Random conversations, each event of which is held against the packages' own models:
no unknown event or member, no member missing, and what they add up to is the answer."""

import json
import os
import random
import typing
import unittest

import anthropic
import anthropic.types
import openai
import openai.types.responses
import pydantic
from anthropic.lib.streaming._messages import accumulate_event
from openai import omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState

import messages_suite
import responses_suite
from gateway import MESSAGES_MODELS, MODEL, NATIVE_MODEL, PICTURE, RESPONSES_MODELS, connect, said

COUNT = int(os.environ.get("FAREBOX_CONVERSATIONS", "100"))
SEED = int(os.environ.get("FAREBOX_SEED", "0")) or random.randrange(1, 1 << 32)

# How upstreams write what they say; none of it may be seen behind the gateway.
WRITTEN = (
    "", "", "split=byte", "split=utf8", "split=crlf", "split=frame", "crlf=1", "comments=1", "chunk=7", "events_per_write=5",
    "crlf=1 comments=1 split=byte", "usage=late", "usage=twice", "usage=none", "usage=every", "usage=early",
)
BROKEN = ("error_event=1 error_after=", "cut=fin cut_after=", "cut=rst cut_after=")


def events_of(union) -> dict:
    """The models of a union of events, by the names of the events."""
    models = {}
    for model in typing.get_args(typing.get_args(union)[0]):
        for name in typing.get_args(model.model_fields["type"].annotation):
            models[name] = model
    return models


RESPONSES = events_of(openai.types.responses.ResponseStreamEvent)
MESSAGES = events_of(anthropic.types.RawMessageStreamEvent)


# What the vendors send and these packages do not name.
MORE = (".store", ".usage.service_tier", "ResponseFunctionCallArgumentsDoneEvent.name")


def strangers(value, path="") -> list:
    """Members that the package's models do not have."""
    if isinstance(value, pydantic.BaseModel):
        found = [f"{path}.{name}" for name in value.__pydantic_extra__ or {}]
        found = [name for name in found if not name.endswith(MORE)]
        for name in type(value).model_fields:
            found += strangers(getattr(value, name), f"{path}.{name}")
        return found
    if isinstance(value, (list, tuple)):
        return [name for n, item in enumerate(value) for name in strangers(item, f"{path}.{n}")]
    return []


def frames(raw: str):
    """The events of a stream as they were sent."""
    raw = raw.replace("\r\n", "\n")  # as an upstream wrote it that is passed through
    assert raw.endswith("\n\n"), raw[-200:]
    for frame in raw.split("\n\n")[:-1]:
        if frame.startswith(":"):
            continue
        name, data = frame.split("\n")
        assert name.startswith("event: ") and data.startswith("data: "), frame
        yield name[len("event: "):], data[len("data: "):]


def whole(model, data):
    """The value of a model from JSON, to the letter."""
    value = model.model_validate_json(data, strict=True)
    unknown = strangers(value, model.__name__)
    assert not unknown, f"there is no {unknown}: {data}"
    return value


def turn(rng: random.Random, thinks: bool, told: bool = True):
    """What one turn asks of the upstream: its scenario, whether tools and a cap come with it. Not
    told: its bytes pass through, with what it says wrongly of usage."""
    written = rng.choice(WRITTEN)
    words = [f"tokens={rng.randrange(1, 40)}", written if told or "usage" not in written else ""]
    tools, broken = rng.random() < 0.3, rng.random() < 0.1
    if thinks:
        words.append(f"reasoning={rng.randrange(1, 12)}")
    if tools:
        words.append("tool=" + rng.choice(["all", "get_time", "get_weather"]))
    if rng.random() < 0.3:
        words.append("unicode=1")
    if broken:
        words.append(rng.choice(BROKEN) + str(rng.randrange(0, 20)))
    cap = rng.choice([None, None, None, rng.randrange(16, 60)]) if not (tools or thinks) else None
    return " ".join(w for w in words if w), tools, broken, cap


class Conversations(unittest.TestCase):
    def each(self, models, converse):
        rng = random.Random(SEED)
        for n in range(COUNT):
            model, scenarios = models[n % len(models)], []
            try:
                converse(rng, model, scenarios)
            except (openai.APIStatusError, anthropic.APIStatusError) as err:
                if err.status_code < 429 or not any(how in scenarios[-1] for how in BROKEN):  # it may break before its first byte
                    self.fail(f"FAREBOX_SEED={SEED}, conversation {n} of {model}, turns {scenarios}: {err}")
            except Exception as err:
                self.fail(f"FAREBOX_SEED={SEED}, conversation {n} of {model}, turns {scenarios}: {type(err).__name__}: {err}")

    def test_responses(self):
        with connect() as client:
            self.each(RESPONSES_MODELS, lambda *of: self.respond(client, *of))

    def respond(self, client, rng, model, scenarios):
        input = []
        for _ in range(rng.randrange(1, 4)):
            thinks = rng.random() < 0.3
            scenario, tools, broken, cap = turn(rng, thinks, model != NATIVE_MODEL)
            scenarios.append(scenario)
            content = said("Say something.", scenario)
            if rng.random() < 0.1:
                content = [{"type": "input_text", "text": content}, {"type": "input_image", "image_url": PICTURE, "detail": "auto"}]
            input.append({"role": "user", "content": content})
            params = {"model": model, "input": input}
            if tools:
                params["tools"] = responses_suite.TOOLS
            if thinks:
                params |= {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
            if cap:
                params["max_output_tokens"] = cap
            if not broken and "usage" not in scenario and rng.random() < 0.2:
                raw = client.responses.with_raw_response.create(**params).http_response.text
                answer = whole(openai.types.responses.Response, raw)
            else:
                with client.responses.with_streaming_response.create(stream=True, **params) as stream:
                    answer = self.add(b"".join(stream.iter_bytes()).decode(), broken)
            if answer is None or answer.status == "failed":
                return
            self.assertEqual(answer.model, model)
            self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
            calls = [item for item in answer.output if item.type == "function_call"]
            input += [item.model_dump(exclude_none=True) for item in answer.output]
            input += [{"type": "function_call_output", "call_id": call.call_id, "output": "clear"} for call in calls]

    def add(self, raw, broken):
        """Adds a stream of /responses up as the package does."""
        state, last, number, texts = ResponseStreamState(input_tools=omit, text_format=omit), None, 0, {}
        sent = list(frames(raw))
        for name, data in sent:
            self.assertIn(name, RESPONSES)
            event = whole(RESPONSES[name], data)
            self.assertEqual((event.type, event.sequence_number), (name, number))
            number += 1
            state.handle_event(construct_type(type_=openai.types.responses.ResponseStreamEvent, value=json.loads(data)))
            if name.endswith(".delta"):
                key = (event.output_index, name)
                texts[key] = texts.get(key, "") + event.delta
            last = event
        failed = last.type == "error"
        ends = [name for name, _ in sent if name in ("response.completed", "response.incomplete", "response.failed")]
        if failed and broken and not ends:
            return None  # it was passed through, and nobody knows the rest
        self.assertEqual(len(ends), 1, sent[-2:])
        self.assertTrue(failed or last.type == ends[0], sent[-1])
        if failed:
            last = whole(RESPONSES[sent[-2][0]], sent[-2][1])
        if not broken:
            self.assertIn(last.response.status, ("completed", "incomplete"))
        if last.type == "response.completed":
            self.assertEqual(state._completed_response.id, last.response.id)
        if last.type != "response.failed":
            for (index, name), text in texts.items():
                item = last.response.output[index]
                if name == "response.output_text.delta":
                    self.assertEqual(item.content[-1].text, text)
                elif name == "response.function_call_arguments.delta":
                    self.assertEqual(item.arguments, text)
        return last.response

    def test_messages(self):
        with messages_suite.connect() as client:
            self.each(MESSAGES_MODELS, lambda *of: self.message(client, *of))

    def message(self, client, rng, model, scenarios):
        messages, thinks = [], rng.random() < 0.3  # who thinks thinks before each call
        for _ in range(rng.randrange(1, 4)):
            scenario, tools, broken, cap = turn(rng, thinks, model == MODEL)
            scenarios.append(scenario)
            content = [{"type": "text", "text": said("Say something.", scenario)}]
            if rng.random() < 0.1:
                source = {"type": "base64", "media_type": "image/png", "data": PICTURE.split(",")[1]}
                content.append({"type": "image", "source": source})
            if messages and messages[-1]["role"] == "user":
                messages[-1]["content"] += content  # behind the results of tools
            else:
                messages.append({"role": "user", "content": content})
            params = {"model": model, "max_tokens": cap or 4000, "messages": messages}
            if tools or any(m["role"] == "assistant" and "tool_use" in str(m) for m in messages):
                params["tools"] = messages_suite.TOOLS
            if thinks:
                params["thinking"] = messages_suite.THINKING
            if not broken and "usage" not in scenario and rng.random() < 0.2:
                answer = whole(anthropic.types.Message, client.messages.with_raw_response.create(**params).http_response.text)
            else:
                with client.messages.with_streaming_response.create(stream=True, **params) as stream:
                    answer = self.accumulate(b"".join(stream.iter_bytes()).decode(), broken)
            if answer is None:
                return
            self.assertEqual(answer.model, model)
            self.assertGreater(answer.usage.output_tokens, 0)
            messages.append({"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in answer.content]})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if calls:
                results = [{"type": "tool_result", "tool_use_id": call.id, "content": "clear"} for call in calls]
                messages.append({"role": "user", "content": results})

    def accumulate(self, raw, broken):
        """Adds a stream of /messages up as the package does; None: it broke off with an error."""
        snapshot, buffers, open_block = None, {}, None
        for name, data in frames(raw):
            if name == "ping":
                continue
            if name == "error":
                self.assertTrue(broken, data)
                whole(anthropic.types.ErrorResponse, data)
                return None
            self.assertIn(name, MESSAGES)
            event = whole(MESSAGES[name], data)
            if name == "content_block_start":
                self.assertEqual((open_block, event.index), (None, len(snapshot.content)))
                open_block = event.index
            elif name == "content_block_delta":
                self.assertEqual(event.index, open_block)
            elif name == "content_block_stop":
                self.assertEqual(event.index, open_block)
                open_block = None
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
        self.assertEqual(name, "message_stop", raw[-300:])
        self.assertIsNotNone(snapshot.stop_reason)
        return whole(anthropic.types.Message, snapshot.model_dump_json())


if __name__ == "__main__":
    unittest.main()
