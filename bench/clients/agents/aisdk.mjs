// Vercel's AI SDK, of the version and with the provider that the arguments name, on each of
// the models behind them. It prints a line for each situation: the model, the situation, and
// worked or failed. tests/clients/aisdk_test.go starts the gateway and sets the variables.
import assert from 'node:assert/strict';

const [version, provider, ...models] = process.argv.slice(2);
const { APICallError, Output, generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } = await import(`ai${version}`);
const { [provider === 'openai' ? 'createOpenAI' : 'createAnthropic']: create } = await import(`ai${version}-${provider}`);

const need = (name) => process.env[name] ?? assert.fail(`${name} is not set`);
const baseURL = need('FAREBOX_URL');
const key = need('FAREBOX_KEY');
const poorKey = need('FAREBOX_POOR_KEY'); // its account has no money
const connect = (apiKey) => create({ baseURL, apiKey });
const openai = provider === 'openai';

const nineWords = (text) => assert.equal(String(text).trim().split(/\s+/).length, 9, `it answered ${JSON.stringify(text)}`);
const title = jsonSchema({ type: 'object', properties: { title: { type: 'string' } }, required: ['title'], additionalProperties: false });
const fails = (call) => call.then(() => assert.fail('it succeeded'), (err) => err);
// 64 x 64 black pixels.
const picture = 'iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAD0lEQVR4nGNgGAWjgHwAAAJAAAFZNqEDAAAAAElFTkSuQmCC';
const content = {
  5: [{ type: 'media', data: picture, mediaType: 'image/png' }],
  6: [{ type: 'image-data', data: picture, mediaType: 'image/png' }],
  7: [{ type: 'file', data: { type: 'data', data: picture }, mediaType: 'image/png' }],
}[version];

// twoTools notes what was called.
const twoTools = (called) => Object.fromEntries([['weather', 'city'], ['time', 'zone']].map(([name, member]) => [name, tool({
  description: `Gives the ${name}.`,
  inputSchema: jsonSchema({ type: 'object', properties: { [member]: { type: 'string' } }, required: [member], additionalProperties: false }),
  execute: async (input) => {
    assert.equal(typeof input[member], 'string');
    called.push(name);
    return 'clear';
  },
})]));
const both = ['weather', 'time'];
// The simulated model calls as long as it may.
const loop = { stopWhen: stepCountIs(4), prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 2 ? 'auto' : 'none' }) };

// streamed runs a stream to its end and throws what it fails of.
async function streamed(settings) {
  let failed;
  const result = streamText({ ...settings, onError: ({ error }) => { failed = error; } });
  let text = '';
  for await (const part of result.textStream) {
    text += part;
  }
  if (failed) throw Object.assign(new Error('the stream failed', { cause: failed }), { text });
  return { text: await result.text, usage: await result.usage, finishReason: await result.finishReason };
}

function situations(model) {
  const ask = (prompt, more = {}) => ({ model: connect(key)(model), prompt, maxRetries: 0, ...more });
  return {
    answers: async () => {
      const answer = await generateText(ask('Say something. [[sim tokens=9 reasoning=0]]', { maxOutputTokens: 1000 }));
      nineWords(answer.text);
      assert.equal(answer.finishReason, 'stop');
      assert.equal(answer.usage.outputTokens, 9);
    },
    'streams an answer': async () => {
      const { text, usage } = await streamed(ask('Say something. [[sim tokens=9 reasoning=0]]'));
      nineWords(text);
      assert.equal(usage.outputTokens, 9);
    },
    'is told that an answer was cut': async () => {
      assert.equal((await generateText(ask('Say a lot.', { maxOutputTokens: 16 }))).finishReason, 'length');
    },
    'gets an object': async () => {
      assert.equal(typeof (await generateObject(ask('A report.', { schema: title }))).object.title, 'string');
      const result = await generateText(ask('A report.', { [version === '5' ? 'experimental_output' : 'output']: Output.object({ schema: title }) }));
      assert.equal(typeof (result.output ?? result.experimental_output).title, 'string');
    },
    'runs tools in steps': async () => {
      const called = [];
      const answer = await generateText(ask('Weather and time? [[sim tool=all tokens=9 reasoning=0]]', { tools: twoTools(called), ...loop }));
      assert.deepEqual(called, [...both, ...both]);
      assert.equal(answer.steps.length, 3);
      nineWords(answer.text);
    },
    'streams tools in steps': async () => {
      const called = [];
      const { text } = await streamed(ask('Weather and time? [[sim tool=all tokens=9 reasoning=0]]', { tools: twoTools(called), ...loop }));
      assert.deepEqual(called, [...both, ...both]);
      nineWords(text);
    },
    'calls one tool twice at once': async () => {
      const called = [];
      const answer = await generateText(ask('Weathers? [[sim tool=weather calls=2 rounds=1 tokens=9 reasoning=0]]', { tools: twoTools(called), stopWhen: stepCountIs(4) }));
      assert.deepEqual(called, ['weather', 'weather']);
      assert.equal(answer.steps[0].toolResults.length, 2);
      nineWords(answer.text);
    },
    'goes on with what it thought': async () => {
      const providerOptions = openai
        ? { openai: { reasoningEffort: 'low', reasoningSummary: 'auto', forceReasoning: true, store: false, include: ['reasoning.encrypted_content'] } }
        : { anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } } };
      const called = [];
      const answer = await generateText(ask('Weather and time? [[sim tool=all reasoning=5 tokens=9]]', { tools: twoTools(called), ...loop, providerOptions }));
      assert.equal(answer.steps.length, 3);
      assert.ok(answer.steps[0].reasoningText.length > 10);
      assert.equal(called.length, 4);
    },
    'goes on with its conversation': async () => {
      const first = [{ role: 'user', content: 'Weather? [[sim tool=weather rounds=1 tokens=9 reasoning=0]]' }];
      const { response } = await generateText({ ...ask(undefined, { tools: twoTools([]), stopWhen: stepCountIs(3) }), messages: first });
      const messages = [...first, ...response.messages, { role: 'user', content: 'And? [[sim tokens=9 reasoning=0]]' }];
      nineWords((await generateText({ ...ask(undefined, { tools: twoTools([]) }), messages })).text);
    },
    'is interrupted in a stream and goes on': async () => {
      const stop = new AbortController();
      const prompt = 'Say a lot. [[sim tokens=400 reasoning=0 gap_ms=20]]';
      let text = '';
      for await (const part of streamText({ ...ask(prompt), abortSignal: stop.signal, onError() {} }).textStream) {
        text += part;
        if (text.length > 20) stop.abort();
      }
      assert.ok(text.length > 20 && text.length < 1500, `${text.length} characters came`);
      const messages = [{ role: 'user', content: prompt }, { role: 'assistant', content: text.trim() }, { role: 'user', content: 'Go on. [[sim tokens=9 reasoning=0]]' }];
      nineWords((await generateText({ ...ask(undefined), messages })).text);
    },
    'is interrupted in a tool and goes on': async () => {
      const stop = new AbortController();
      const tools = { weather: tool({ description: 'Weather.', inputSchema: jsonSchema({ type: 'object' }), execute: (_, { abortSignal }) => {
        stop.abort();
        return new Promise((_, reject) => { abortSignal.addEventListener('abort', () => reject(new Error('interrupted'))); if (abortSignal.aborted) reject(new Error('interrupted')); });
      } }) };
      const prompt = 'Weather? [[sim tool=weather rounds=1 tokens=9 reasoning=0]]';
      await fails(generateText(ask(prompt, { tools, stopWhen: stepCountIs(3), abortSignal: stop.signal })));
      nineWords((await generateText({ ...ask(undefined, { tools }), messages: [{ role: 'user', content: prompt }, { role: 'user', content: 'Go on. [[sim tokens=9 reasoning=0]]' }] })).text);
    },
    'shows its model a picture': async () => {
      const tools = { look: tool({ description: 'Looks.', inputSchema: jsonSchema({ type: 'object' }), execute: async () => 'x', toModelOutput: () => ({ type: 'content', value: content }) }) };
      const result = await generateText(ask('Look. [[sim tool=look rounds=1 tokens=9 reasoning=0]]', { tools, stopWhen: stepCountIs(3) }));
      assert.equal(result.steps.length, 2);
      assert.equal(result.steps[1].response.headers['x-svc-left-out'], undefined);
    },
    'wants a search of the provider': async () => {
      const { tools } = connect(key);
      const search = openai ? tools.webSearch({}) : tools.webSearch_20250305({ maxUses: 2 });
      const answer = await generateText(ask('News? [[sim tokens=9 reasoning=0]]', { tools: { web_search: search } }));
      nineWords(answer.text);
      assert.equal(answer.response.headers['x-svc-left-out'], 'tools.web_search');
    },
    'is told that its context is full': async () => {
      const err = await fails(generateText(ask('Much. [[sim status=400 kind=context]]')));
      assert.ok(APICallError.isInstance(err) && err.statusCode === 400, err.stack);
      assert.match(err.message, openai ? /context/ : /^prompt is too long: \d+ tokens > \d+ maximum$/);
    },
    'shows refusals as errors of calls': async () => {
      for (const [apiKey, id, status] of [['wrong', model, 401], [poorKey, model, 402], [key, 'nothing', 404]]) {
        const err = await fails(generateText({ model: connect(apiKey)(id), prompt: 'Hm.', maxRetries: 0 }));
        assert.ok(APICallError.isInstance(err) && err.statusCode === status, err.stack);
      }
    },
    'notices a failure in mid-stream': async () => {
      // Version 5 with openai() throws nothing, but says that the answer has no end.
      const end = await streamed(ask('Say a lot. [[sim tokens=30 reasoning=0 error_event=1 error_after=10]]')).catch((err) => err);
      assert.ok(end.cause || end.finishReason !== 'stop', 'nothing tells of the failure');
      assert.ok(end.text.length > 10, end.text);
    },
  };
}

for (const model of models) {
  for (const [name, run] of Object.entries(situations(model))) {
    const failed = await run().then(() => undefined, (err) => err);
    if (failed) console.error(`${model}, ${name}: ${failed.stack}\n${failed.cause?.stack ?? ''}${failed.responseBody ?? ''}`);
    console.log(`${model}\t${name}\t${failed ? 'failed' : 'worked'}`);
  }
}
