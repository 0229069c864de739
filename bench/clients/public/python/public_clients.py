"""What people use beside OpenAI's own package, unmodified: each gets its answer
at the first try, and what is refused it shows in the gateway's words.

tests/clients/public_test.go starts the gateways and sets the variables. A client whose
package is not installed here is left out: the packages do not all fit beside
each other, so there are two environments."""

import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

URL = os.environ["FAREBOX_URL"]
KEY = os.environ["FAREBOX_KEY"]
POOR_KEY = os.environ["FAREBOX_POOR_KEY"]  # its account has no money
MODEL = os.environ["FAREBOX_MODEL"]
EMBEDDING_MODEL = os.environ["FAREBOX_EMBEDDING_MODEL"]
STRICT = os.environ.get("FAREBOX_STRICT") == "1"  # max_tokens is refused, as the specification says

QUESTION = "Say something. [[sim tokens=9]]"
CAP = 40


def here(*modules: str):
    missing = [m for m in modules if not importlib.util.find_spec(m)]
    return unittest.skipIf(missing, f"not in this environment: {missing}")


class Client:
    """What each client is asked to do. `max` is the cap on completion tokens, in
    the client's own option."""

    caps_with_max_tokens = True

    def chat(self, key=KEY, model=MODEL, max=None) -> str:
        raise NotImplementedError

    def stream(self, max=None) -> str:
        raise unittest.SkipTest("it has no streams of its own")

    def embed(self) -> list:
        raise unittest.SkipTest("it has no embeddings of its own")

    def cap(self):
        return None if STRICT and self.caps_with_max_tokens else CAP

    def nine(self, text):
        self.assertEqual(len(str(text).split()), 9, f"it answered {text!r}")

    def shows(self, wanted: str, call, *args, **kwargs):
        try:
            answer = call(*args, **kwargs)
        except Exception as err:  # every client has its own
            self.assertRegex(str(err), wanted)
        else:
            self.fail(f"it succeeded with {answer!r}")

    def test_is_answered(self):
        self.nine(self.chat(max=self.cap()))

    def test_is_answered_with_a_stream(self):
        self.nine(self.stream(max=self.cap()))

    def test_gets_an_embedding(self):
        self.assertGreaterEqual(len(self.embed()), 256)

    def test_shows_that_a_model_is_unknown(self):
        self.shows("no-such-model", self.chat, model="no-such-model", max=self.cap())

    def test_shows_that_a_key_is_wrong(self):
        self.shows("Authentication failed", self.chat, key="wrong", max=self.cap())

    def test_shows_that_an_account_has_no_money(self):
        self.shows("Insufficient balance|below the minimum", self.chat, key=POOR_KEY, max=self.cap())

    def test_shows_which_member_to_send_instead(self):
        if not (STRICT and self.caps_with_max_tokens):
            self.skipTest("its cap is accepted")
        self.shows("max_completion_tokens", self.chat, max=CAP)


@here("langchain_openai")
class LangChain(Client, unittest.TestCase):
    caps_with_max_tokens = False

    def client(self, key=KEY, model=MODEL, max=None):
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(base_url=URL, api_key=key, model=model, max_tokens=max, max_retries=0)

    def chat(self, key=KEY, model=MODEL, max=None):
        return self.client(key, model, max).invoke(QUESTION).content

    def stream(self, max=None):
        return "".join(chunk.content for chunk in self.client(max=max).stream(QUESTION))

    def embed(self):
        from langchain_openai import OpenAIEmbeddings

        # It counts tokens itself otherwise and sends their numbers, which is for
        # upstreams that take them (compat.token_input).
        return OpenAIEmbeddings(
            base_url=URL, api_key=KEY, model=EMBEDDING_MODEL, check_embedding_ctx_length=False
        ).embed_query("a text")


@here("agents")
class OpenAIAgents(Client, unittest.TestCase):
    def agent(self, key, model, max):
        import agents
        from openai import AsyncOpenAI

        agents.set_tracing_disabled(True)
        return agents.Agent(
            name="tester",
            instructions="Be brief.",
            model_settings=agents.ModelSettings(max_tokens=max),
            model=agents.OpenAIChatCompletionsModel(
                model=model, openai_client=AsyncOpenAI(base_url=URL, api_key=key, max_retries=0)
            ),
        )

    def chat(self, key=KEY, model=MODEL, max=None):
        import agents

        return asyncio.run(agents.Runner.run(self.agent(key, model, max), QUESTION)).final_output

    def stream(self, max=None):
        import agents

        async def run():
            result = agents.Runner.run_streamed(self.agent(KEY, MODEL, max), QUESTION)
            async for _ in result.stream_events():
                pass
            return result.final_output

        return asyncio.run(run())


@here("pydantic_ai")
class PydanticAI(Client, unittest.TestCase):
    caps_with_max_tokens = False

    def agent(self, key=KEY, model=MODEL, max=None):
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return Agent(
            OpenAIChatModel(model, provider=OpenAIProvider(base_url=URL, api_key=key)),
            model_settings={"max_tokens": max} if max else None,
        )

    def chat(self, key=KEY, model=MODEL, max=None):
        return self.agent(key, model, max).run_sync(QUESTION).output

    def stream(self, max=None):
        async def run():
            async with self.agent(max=max).run_stream(QUESTION) as result:
                return await result.get_output()

        return asyncio.run(run())


@here("llm")
class LLM(Client, unittest.TestCase):
    """Simon Willison's command line."""

    def chat(self, key=KEY, model=MODEL, max=None, stream=False):
        with tempfile.TemporaryDirectory() as home:
            with open(os.path.join(home, "extra-openai-models.yaml"), "w") as f:
                f.write(f'- model_id: tried\n  model_name: {model}\n  api_base: "{URL}"\n  api_key_name: farebox\n')
            command = [sys.executable, "-m", "llm", "-m", "tried", "--key", key]
            command += [] if stream else ["--no-stream"]
            command += ["-o", "max_tokens", str(max)] if max else []
            done = subprocess.run(
                [*command, QUESTION],
                env={**os.environ, "LLM_USER_PATH": home},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout

    def stream(self, max=None):
        return self.chat(max=max, stream=True)


@here("llama_index.llms") if importlib.util.find_spec("llama_index") else unittest.skip("not in this environment")
class LlamaIndex(Client, unittest.TestCase):
    def client(self, key=KEY, model=MODEL, max=None):
        from llama_index.llms.openai_like import OpenAILike

        return OpenAILike(api_base=URL, api_key=key, model=model, max_tokens=max, is_chat_model=True, max_retries=0)

    def message(self):
        from llama_index.core.llms import ChatMessage

        return [ChatMessage(role="user", content=QUESTION)]

    def chat(self, key=KEY, model=MODEL, max=None):
        return self.client(key, model, max).chat(self.message()).message.content

    def stream(self, max=None):
        return "".join(part.delta or "" for part in self.client(max=max).stream_chat(self.message()))

    def embed(self):
        from llama_index.embeddings.openai_like import OpenAILikeEmbedding

        return OpenAILikeEmbedding(api_base=URL, api_key=KEY, model_name=EMBEDDING_MODEL).get_text_embedding("a text")


@here("litellm")
class LiteLLM(Client, unittest.TestCase):
    def complete(self, key=KEY, model=MODEL, max=None, stream=False):
        import litellm

        litellm.suppress_debug_info = True
        return litellm.completion(
            model="openai/" + model, api_base=URL, api_key=key, max_tokens=max, stream=stream, num_retries=0,
            messages=[{"role": "user", "content": QUESTION}],
        )

    def chat(self, key=KEY, model=MODEL, max=None):
        return self.complete(key, model, max).choices[0].message.content

    def stream(self, max=None):
        return "".join(part.choices[0].delta.content or "" for part in self.complete(max=max, stream=True))

    def embed(self):
        import litellm

        return litellm.embedding(model="openai/" + EMBEDDING_MODEL, api_base=URL, api_key=KEY, input=["a text"]).data[0]["embedding"]


@here("instructor")
class Instructor(Client, unittest.TestCase):
    def chat(self, key=KEY, model=MODEL, max=None):
        import instructor
        from openai import OpenAI
        from pydantic import BaseModel

        class Report(BaseModel):
            title: str

        client = instructor.from_openai(OpenAI(base_url=URL, api_key=key, max_retries=0), mode=instructor.Mode.TOOLS)
        return client.chat.completions.create(
            model=model, max_tokens=max, response_model=Report, max_retries=1,
            messages=[{"role": "user", "content": "A report."}],
        ).title

    def nine(self, text):
        self.assertIsInstance(text, str)


@here("venice_ai")
class ServiceSDK(Client, unittest.TestCase):
    """A package made for the public service itself."""

    def ask(self, key=KEY, model=MODEL, max=None, **options):
        from venice_ai import SyncVeniceClient

        with SyncVeniceClient(api_key=key, base_url=URL, max_retries=0) as client:
            answer = client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": QUESTION}], **({"max_completion_tokens": max} if max else {}), **options
            )
            if options.get("stream"):
                return "".join(part.choices[0].delta.content or "" for part in answer if part.choices)
            return answer.choices[0].message.content

    caps_with_max_tokens = False

    def chat(self, key=KEY, model=MODEL, max=None):
        return self.ask(key, model, max)

    def stream(self, max=None):
        return self.ask(max=max, stream=True)


if __name__ == "__main__":
    unittest.main()
