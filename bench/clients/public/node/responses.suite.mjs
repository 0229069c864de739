// The package that speaks POST /responses unless it is told otherwise, on every way that
// this is served: answers, streams, objects, and agents that call their tools until they
// have what they need. Vercel's AI SDK is in bench/clients/agents.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Agent, Runner, setDefaultOpenAIClient, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';

function need(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set; these tests are started by: go test -C tests -run TestPackagesOnResponses ./clients`);
  }
  return value;
}

const baseURL = need('FAREBOX_URL');
const apiKey = need('FAREBOX_KEY');

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
