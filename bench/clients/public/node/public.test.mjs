// What people use beside OpenAI's own package, unmodified: each gets its answer
// at the first try, and what is refused it shows in the gateway's words.
// tests/clients/public_test.go starts the gateways and sets the variables.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { HumanMessage } from '@langchain/core/messages';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { Agent as MastraAgent } from '@mastra/core/agent';
import { Agent, OpenAIChatCompletionsModel, Runner, setTracingDisabled, tool } from '@openai/agents';
import { embed, generateObject, generateText, jsonSchema, stepCountIs, streamText, tool as aiTool } from 'ai';
import OpenAI7 from 'openai';
import OpenAI6 from 'openai-6';
import { z } from 'zod';

function need(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set; these tests are started by: go test -C tests -run TestLongPublicClients ./clients`);
  }
  return value;
}

const url = need('FAREBOX_URL');
const key = need('FAREBOX_KEY');
const poorKey = need('FAREBOX_POOR_KEY'); // its account has no money
const chatModel = need('FAREBOX_MODEL');
const embeddingModel = need('FAREBOX_EMBEDDING_MODEL');
// The built-in defaults refuse max_tokens, as the specification says.
const strict = process.env.FAREBOX_STRICT === '1';

setTracingDisabled(true);

const question = 'Say something. [[sim tokens=9]]';
const cap = 40;

function openai(OpenAI) {
  const connect = (apiKey) => new OpenAI({ baseURL: url, apiKey, maxRetries: 0 });
  return {
    sendsMaxTokens: true, // here; the package leaves the choice to its user
    chat: async ({ apiKey = key, model = chatModel, max } = {}) => {
      const answer = await connect(apiKey).chat.completions.create({ model, max_tokens: max, messages: [{ role: 'user', content: question }] });
      return answer.choices[0].message.content;
    },
    stream: async ({ max } = {}) => {
      let text = '';
      for await (const chunk of await connect(key).chat.completions.create({ model: chatModel, max_tokens: max, stream: true, messages: [{ role: 'user', content: question }] })) {
        text += chunk.choices[0]?.delta?.content ?? '';
      }
      return text;
    },
    embed: async () => (await connect(key).embeddings.create({ model: embeddingModel, input: 'a text' })).data[0].embedding,
    models: async () => (await connect(key).models.retrieve(chatModel)).id,
  };
}

// Vercel's AI SDK with both of its providers for such servers.
function vercel(provider) {
  return {
    sendsMaxTokens: true,
    chat: async ({ apiKey = key, model = chatModel, max } = {}) =>
      (await generateText({ model: provider(apiKey).chat(model), prompt: question, maxOutputTokens: max, maxRetries: 0 })).text,
    stream: async ({ max } = {}) => {
      let text = '';
      let failed;
      const result = streamText({ model: provider(key).chat(chatModel), prompt: question, maxOutputTokens: max, maxRetries: 0, onError: ({ error }) => { failed = error; } });
      for await (const part of result.textStream) {
        text += part;
      }
      if (failed) throw failed;
      return text;
    },
    tools: async () => {
      let called;
      await generateText({
        model: provider(key).chat(chatModel), prompt: 'Weather? [[sim tool=weather]]', maxRetries: 0, stopWhen: stepCountIs(1), toolChoice: 'required',
        tools: { weather: aiTool({ description: 'Weather of a city', inputSchema: z.object({ city: z.string() }), execute: async (input) => { called = input; return 'sunny'; } }) },
      });
      return called;
    },
    object: async () => (await generateObject({
      model: provider(key).chat(chatModel), prompt: 'A report.', maxRetries: 0,
      schema: jsonSchema({ type: 'object', properties: { title: { type: 'string' } }, required: ['title'], additionalProperties: false }),
    })).object,
    embed: async () => {
      const p = provider(key);
      const model = (p.textEmbeddingModel ?? p.embeddingModel).call(p, embeddingModel);
      return (await embed({ model, value: 'a text', maxRetries: 0 })).embedding;
    },
  };
}

function langchain() {
  const connect = ({ apiKey = key, model = chatModel, max } = {}) =>
    new ChatOpenAI({ model, apiKey, maxTokens: max, maxRetries: 0, configuration: { baseURL: url } });
  const messages = [new HumanMessage(question)];
  return {
    sendsMaxTokens: true,
    chat: async (o) => (await connect(o).invoke(messages)).content,
    stream: async (o) => {
      let text = '';
      for await (const chunk of await connect(o).stream(messages)) {
        text += chunk.content;
      }
      return text;
    },
    tools: async () => {
      const answer = await connect().bindTools([{ type: 'function', function: { name: 'weather', description: 'Weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }]).invoke('Weather? [[sim tool=weather]]');
      return answer.tool_calls[0].args;
    },
    embed: async () => new OpenAIEmbeddings({ model: embeddingModel, apiKey: key, configuration: { baseURL: url } }).embedQuery('a text'),
  };
}

function agents() {
  const connect = ({ apiKey = key, model = chatModel, max, tools = [], instructions = 'Be brief.' } = {}) =>
    new Agent({
      name: 'tester', instructions, tools, modelSettings: { maxTokens: max },
      model: new OpenAIChatCompletionsModel(new OpenAI7({ baseURL: url, apiKey, maxRetries: 0 }), model),
    });
  return {
    sendsMaxTokens: true,
    chat: async (o) => (await new Runner().run(connect(o), question)).finalOutput,
    stream: async (o) => {
      const result = await new Runner().run(connect(o), question, { stream: true });
      let text = '';
      for await (const part of result.toTextStream()) {
        text += part;
      }
      await result.completed;
      return text;
    },
    tools: async () => {
      let called;
      const weather = tool({ name: 'weather', description: 'Weather', parameters: z.object({ city: z.string() }), execute: async (input) => { called = input; return 'sunny'; } });
      await new Runner().run(connect({ tools: [weather] }), 'Weather? [[sim tool=weather]]', { maxTurns: 3 }).catch((err) => {
        if (!called) throw err; // the simulated model calls its tool for ever
      });
      return called;
    },
  };
}

function mastra() {
  const connect = ({ apiKey = key, model = chatModel } = {}) => new MastraAgent({
    id: 'tester', name: 'tester', instructions: 'Be brief.', maxRetries: 0,
    model: createOpenAICompatible({ name: 'farebox', baseURL: url, apiKey }).chatModel(model),
  });
  const settings = (o) => ({ maxRetries: 0, modelSettings: { maxOutputTokens: o?.max, maxRetries: 0 } });
  return {
    sendsMaxTokens: true,
    chat: async (o) => (await connect(o).generate(question, settings(o))).text,
    stream: async (o) => (await connect(o).stream(question, settings(o))).text,
  };
}

const clients = {
  'openai 7': openai(OpenAI7),
  'openai 6': openai(OpenAI6),
  'Vercel AI SDK, @ai-sdk/openai': vercel((apiKey) => createOpenAI({ baseURL: url, apiKey })),
  'Vercel AI SDK, @ai-sdk/openai-compatible': vercel((apiKey) => {
    const p = createOpenAICompatible({ name: 'farebox', baseURL: url, apiKey, supportsStructuredOutputs: true, includeUsage: true });
    return Object.assign((id) => p.chatModel(id), { chat: (id) => p.chatModel(id), embeddingModel: (id) => p.textEmbeddingModel?.(id) ?? p.embeddingModel(id) });
  }),
  'LangChain JS': langchain(),
  'openai-agents JS': agents(),
  Mastra: mastra(),
};

const nineWords = (text) => assert.equal(String(text).trim().split(/\s+/).length, 9, `it answered ${JSON.stringify(text)}`);

// shows asserts that the error which a call throws says the gateway's words
// where its users look: in its message, or in what is printed of it.
async function shows(call, ...wanted) {
  const err = await call.then((answer) => assert.fail(`it succeeded with ${JSON.stringify(answer)}`), (err) => err);
  assert.ok(!(err instanceof assert.AssertionError), err.message);
  for (const want of wanted) {
    assert.match(String(err.message), want, `it shows only: ${err.message}`);
  }
}

for (const [name, client] of Object.entries(clients)) {
  // A client that sends max_tokens cannot send its cap under the built-in default.
  const options = strict ? {} : { max: cap };
  describe(name, () => {
    it('is answered', async () => nineWords(await client.chat(options)));
    it('is answered with a stream', async () => nineWords(await client.stream(options)));
    if (client.tools) {
      it('has its tool called', async () => assert.ok('city' in ((await client.tools()) ?? {}), 'the tool was not called'));
    }
    if (client.object) {
      it('gets an object of its schema', async () => assert.equal(typeof (await client.object()).title, 'string'));
    }
    if (client.embed) {
      it('gets an embedding', async () => assert.ok((await client.embed()).length >= 256));
    }
    if (client.models) {
      it('finds a model', async () => assert.equal(await client.models(), chatModel));
    }
    it('shows that a model is unknown', () => shows(client.chat({ ...options, model: 'no-such-model' }), /no-such-model/));
    it('shows that a key is wrong', () => shows(client.chat({ ...options, apiKey: 'wrong' }), /Authentication failed/));
    it('shows that an account has no money', () => shows(client.chat({ ...options, apiKey: poorKey }), /Insufficient balance|below the minimum/));
    if (strict && client.sendsMaxTokens) {
      it('shows which member to send instead of max_tokens', () => shows(client.chat({ max: cap }), /max_completion_tokens/));
    }
  });
}

// A page's own fetch: what a browser sends, and what it must find to hand the
// answer to the page. Node's fetch does not enforce it, so the headers are read.
describe('fetch from a page', { skip: !strict && 'the example allows no pages' }, () => {
  const origin = 'http://localhost:5173';
  const headers = { Origin: origin, Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  it('is allowed beforehand', async () => {
    const res = await fetch(`${url}/chat/completions`, {
      method: 'OPTIONS',
      headers: { Origin: origin, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization,content-type,x-stainless-lang' },
    });
    assert.equal(res.status, 204);
    assert.ok(['*', origin].includes(res.headers.get('access-control-allow-origin')));
    assert.match(res.headers.get('access-control-allow-methods'), /POST/);
    assert.match(res.headers.get('access-control-allow-headers'), /authorization/i);
    assert.match(res.headers.get('access-control-allow-headers'), /x-stainless-lang|\*/i);
  });
  for (const stream of [false, true]) {
    it(stream ? 'reads a stream' : 'reads an answer', async () => {
      const res = await fetch(`${url}/chat/completions`, { method: 'POST', headers, body: JSON.stringify({ model: chatModel, stream, messages: [{ role: 'user', content: question }] }) });
      assert.equal(res.status, 200);
      assert.ok(['*', origin].includes(res.headers.get('access-control-allow-origin')));
      const text = await res.text();
      assert.ok(stream ? text.endsWith('data: [DONE]\n\n') : JSON.parse(text).choices.length === 1);
    });
  }
  it('reads a refusal', async () => {
    const res = await fetch(`${url}/chat/completions`, { method: 'POST', headers: { ...headers, Authorization: 'Bearer wrong' }, body: '{}' });
    assert.equal(res.status, 401);
    assert.ok(['*', origin].includes(res.headers.get('access-control-allow-origin')));
  });
});
