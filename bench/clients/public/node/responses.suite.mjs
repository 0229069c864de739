// Packages that speak POST /responses unless they are told otherwise, and the one that
// speaks POST /messages, on every way that these are served: answers, streams, objects,
// and agents that call their tools until they have what they need.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { Agent, Runner, setDefaultOpenAIClient, setTracingDisabled, tool } from '@openai/agents';
import { APICallError, Output, generateObject, generateText, stepCountIs, streamText, tool as aiTool } from 'ai';
import OpenAI from 'openai';
import { z } from 'zod';

function need(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set; these tests are started by: go test -run TestPackagesOnResponses ./tests/clients`);
  }
  return value;
}

const baseURL = need('FAREBOX_URL');
const apiKey = need('FAREBOX_KEY');
const poorKey = need('FAREBOX_POOR_KEY');

setTracingDisabled(true);
setDefaultOpenAIClient(new OpenAI({ baseURL, apiKey, maxRetries: 0 }));

const words = (text, n) => assert.equal(String(text).trim().split(/\s+/).length, n, `it answered ${JSON.stringify(text)}`);

// twoTools are for agents: each is offered until it was called, so that the agent comes to its end.
function twoTools() {
  const called = [];
  const make = (name, member) => tool({
    name, description: `Gives the ${name}.`, parameters: z.object({ [member]: z.string() }),
    isEnabled: () => !called.includes(name),
    execute: async (input) => {
      assert.equal(typeof input[member], 'string');
      called.push(name);
      return 'clear';
    },
  });
  return { called, tools: [make('weather', 'city'), make('time', 'zone')] };
}

for (const model of need('FAREBOX_RESPONSES_MODELS').split(' ')) {
  describe(`openai-agents on ${model}`, () => {
    for (const how of ['all', '1']) {
      it(`calls two tools ${how === 'all' ? 'at once' : 'one after the other'} and ends`, async () => {
        const { called, tools } = twoTools();
        const agent = new Agent({ name: 'tester', instructions: 'Be brief.', model, tools });
        const result = await new Runner().run(agent, `Weather and time? [[sim tool=${how} tokens=9]]`);
        assert.deepEqual(called, ['weather', 'time']);
        words(result.finalOutput, 9);
      });
    }

    it('streams, calls two tools and ends', async () => {
      const { called, tools } = twoTools();
      const agent = new Agent({ name: 'tester', instructions: 'Be brief.', model, tools });
      const result = await new Runner().run(agent, 'Weather and time? [[sim tool=1 tokens=9]]', { stream: true });
      let text = '';
      for await (const part of result.toTextStream()) {
        text += part;
      }
      await result.completed;
      assert.deepEqual(called, ['weather', 'time']);
      assert.equal(text, result.finalOutput);
      words(text, 9);
    });

    it('thinks, calls and goes on with its thoughts', async () => {
      const { called, tools } = twoTools();
      const agent = new Agent({
        name: 'tester', model, tools,
        modelSettings: {
          reasoning: { effort: 'low', summary: 'auto' }, store: false,
          providerData: { include: ['reasoning.encrypted_content'] },
        },
      });
      const result = await new Runner().run(agent, 'Weather and time? [[sim tool=1 reasoning=5 tokens=9]]');
      assert.deepEqual(called, ['weather', 'time']);
      words(result.finalOutput, 4);
    });

    it('gives an object', async () => {
      const agent = new Agent({ name: 'tester', model, outputType: z.object({ title: z.string() }) });
      const result = await new Runner().run(agent, 'A report.');
      assert.equal(typeof result.finalOutput.title, 'string');
    });
  });
}

const providers = {
  'Vercel AI SDK, openai()': [need('FAREBOX_RESPONSES_MODELS'), (key) => createOpenAI({ baseURL, apiKey: key })],
  'Vercel AI SDK, anthropic()': [need('FAREBOX_MESSAGES_MODELS'), (key) => createAnthropic({ baseURL, apiKey: key })],
};

for (const [name, [models, provider]] of Object.entries(providers)) {
  for (const model of models.split(' ')) {
    describe(`${name}, on ${model}`, () => {
      const ask = (prompt, more = {}) => ({ model: provider(apiKey)(model), prompt, maxRetries: 0, ...more });
      const tools = (called) => Object.fromEntries([['weather', 'city'], ['time', 'zone']].map(([name, member]) => [name, aiTool({
        description: `Gives the ${name}.`, inputSchema: z.object({ [member]: z.string() }),
        execute: async (input) => {
          assert.equal(typeof input[member], 'string');
          called.push(name);
          return 'clear';
        },
      })]));
      // The simulated model calls as long as it may.
      const loop = { stopWhen: stepCountIs(4), prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 2 ? 'auto' : 'none' }) };

      it('is answered', async () => {
        const answer = await generateText(ask('Say something. [[sim tokens=9]]', { maxOutputTokens: 1000 }));
        words(answer.text, 9);
        assert.equal(answer.finishReason, 'stop');
        assert.equal(answer.usage.outputTokens, 9);
      });

      it('is answered with a stream', async () => {
        const result = streamText(ask('Say something. [[sim tokens=9]]'));
        let text = '';
        for await (const part of result.textStream) {
          text += part;
        }
        words(text, 9);
        assert.equal((await result.usage).outputTokens, 9);
      });

      it('is told that an answer was cut', async () => {
        const answer = await generateText(ask('Say a lot.', { maxOutputTokens: 16 }));
        assert.equal(answer.finishReason, 'length');
      });

      it('gets an object', async () => {
        const schema = z.object({ title: z.string() });
        assert.equal(typeof (await generateObject(ask('A report.', { schema }))).object.title, 'string');
        const { output } = await generateText(ask('A report.', { output: Output.object({ schema }) }));
        assert.equal(typeof output.title, 'string');
      });

      it('runs a loop of tools to its end', async () => {
        const called = [];
        const answer = await generateText(ask('Weather and time? [[sim tool=all tokens=9]]', { tools: tools(called), ...loop }));
        assert.deepEqual(called, ['weather', 'time', 'weather', 'time']);
        assert.equal(answer.steps.length, 3);
        words(answer.text, 9);
      });

      it('streams a loop of tools to its end', async () => {
        const called = [];
        let failed;
        const result = streamText(ask('Weather and time? [[sim tool=all tokens=9]]', {
          tools: tools(called), ...loop, onError: ({ error }) => { failed = error; },
        }));
        await result.consumeStream();
        assert.ifError(failed);
        assert.deepEqual(called, ['weather', 'time', 'weather', 'time']);
        words(await result.text, 9);
      });

      it('goes on with what it thought and said', async () => {
        const thinking = name.includes('anthropic')
          ? { anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } } }
          : { openai: { reasoningEffort: 'low', reasoningSummary: 'auto', forceReasoning: true, store: false } };
        const called = [];
        const answer = await generateText(ask('Weather and time? [[sim tool=all reasoning=5 tokens=9]]', {
          tools: tools(called), ...loop, providerOptions: thinking,
        }));
        assert.equal(answer.steps.length, 3);
        assert.ok(answer.steps[0].reasoningText.length > 10);
        words(answer.text, 4);
      });

      it('shows refusals as errors of calls', async () => {
        for (const [key, id, status] of [['wrong', model, 401], [poorKey, model, 402], [apiKey, 'nothing', 404]]) {
          const err = await generateText({ model: provider(key)(id), prompt: 'Hm.', maxRetries: 0 }).then(() => assert.fail('it succeeded'), (err) => err);
          assert.ok(APICallError.isInstance(err), err.stack);
          assert.equal(err.statusCode, status);
        }
      });

      it('reports a failure in mid-stream', async () => {
        let failed;
        const result = streamText(ask('Say a lot. [[sim tokens=30 error_event=1 error_after=10]]', { onError: ({ error }) => { failed = error; } }));
        let text = '';
        for await (const part of result.textStream) {
          text += part;
        }
        assert.ok(text.length > 10);
        assert.ok(failed, 'nothing tells of the failure');
      });
    });
  }
}
