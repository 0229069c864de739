// POST /messages as Anthropic's package sees it, over every kind of upstream.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';
import { discreet, keys, models, picture, url } from './gateway.mjs';

const connect = (apiKey = keys.rich, options = {}) =>
  new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey, authToken: null, maxRetries: 0, timeout: 30_000, ...options });

const anthropic = connect();

const ask = (text, scenario) => [{ role: 'user', content: scenario ? `${text} [[sim ${scenario}]]` : text }];

const tools = [
  {
    name: 'get_weather', description: 'Weather of a city',
    input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
  {
    name: 'get_time', description: 'Time in a zone',
    input_schema: { type: 'object', properties: { zone: { type: 'string' } }, required: ['zone'] },
  },
];

async function refused(call, kind, status, type) {
  const err = await call.then(() => assert.fail(`expected ${kind.name}, but the call succeeded`), (err) => err);
  assert.ok(err instanceof kind, `expected ${kind.name}, got ${err?.constructor?.name}: ${err?.stack}`);
  assert.equal(err.status, status);
  assert.equal(err.type, type);
  assert.match(err.requestID ?? '', /^[0-9a-f]{32}$/, 'an error must name its request');
  discreet(err.message);
  return err;
}

function checkAnswer(answer, model, count) {
  assert.match(answer.id, /^msg_/);
  assert.deepEqual([answer.type, answer.role, answer.model, answer.stop_reason], ['message', 'assistant', model, 'end_turn']);
  const last = answer.content.at(-1);
  assert.equal(last.type, 'text');
  assert.equal(last.text.split(' ').length, count, last.text);
  assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
}

for (const model of models.messages) {
  describe(`messages of ${model}`, () => {
    const create = (messages, params) => anthropic.messages.create({ model, max_tokens: 4000, messages, ...params });
    const stream = (messages, params) => anthropic.messages.stream({ model, max_tokens: 4000, messages, ...params });

    // handBack gives the results of an answer's calls back and asks again.
    async function handBack(messages, answer, names) {
      const calls = answer.content.filter((block) => block.type === 'tool_use');
      assert.equal(answer.stop_reason, 'tool_use');
      assert.deepEqual(calls.map((c) => c.name), names);
      assert.equal(new Set(calls.map((c) => c.id)).size, calls.length, 'two calls have one id');
      for (const call of calls) {
        assert.deepEqual(Object.keys(call.input), [call.name === 'get_weather' ? 'city' : 'zone']);
      }
      const results = calls.map((call) => ({
        type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: 'clear' }],
      }));
      checkAnswer(await create([
        ...messages, { role: 'assistant', content: answer.content },
        { role: 'user', content: [...results, { type: 'text', text: 'So? [[sim tokens=4]]' }] },
      ], { tools }), model, 4);
    }

    it('answers in one piece', async () => {
      const { data, response } = await anthropic.messages.create({
        model, max_tokens: 4000, system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
        messages: ask('Say something.', 'tokens=12'), stop_sequences: ['END'], temperature: 0.5, metadata: { user_id: 'u1' },
      }).withResponse();
      checkAnswer(data, model, 12);
      assert.equal(data.usage.output_tokens, 12);
      assert.equal(data.stop_sequence, null);
      discreet(JSON.stringify([...response.headers]));
    });

    it('streams events that add up', async () => {
      const s = stream(ask('Say something.', 'tokens=20'));
      let text = '';
      s.on('text', (delta, snapshot) => {
        text += delta;
        assert.equal(snapshot, text);
      });
      const answer = await s.finalMessage();
      checkAnswer(answer, model, 20);
      assert.equal(answer.content.at(-1).text, text);
      assert.equal(await s.finalText(), text);
      assert.equal(answer.usage.output_tokens, 20);
    });

    it('says that it was cut by its limit', async () => {
      const whole = await create(ask('Say a lot.'), { max_tokens: 7 });
      const streamed = await stream(ask('Say a lot.'), { max_tokens: 7 }).finalMessage();
      for (const answer of [whole, streamed]) {
        assert.equal(answer.stop_reason, 'max_tokens');
        assert.equal(answer.usage.output_tokens, 7);
      }
    });

    it('calls tools and takes their results', async () => {
      const messages = ask('Weather and time?', 'tool=all');
      await handBack(messages, await create(messages, { tools }), ['get_weather', 'get_time']);
      const one = ask('Time?');
      const choice = { type: 'tool', name: 'get_time', disable_parallel_tool_use: true };
      await handBack(one, await create(one, { tools, tool_choice: choice }), ['get_time']);
    });

    it('streams parallel calls in fragments', async () => {
      const messages = ask('Weather and time?', 'tool=all');
      const s = stream(messages, { tools });
      let fragments = 0;
      s.on('inputJson', () => { fragments++; });
      await handBack(messages, await s.finalMessage(), ['get_weather', 'get_time']);
      assert.ok(fragments > 3, `${fragments} fragments`);
    });

    it('runs the package\'s own loop of tools', async () => {
      const called = [];
      const runner = anthropic.beta.messages.toolRunner({
        model, max_tokens: 4000, messages: ask('Weather?', 'tool=get_weather'), max_iterations: 3,
        tools: [betaZodTool({
          name: 'get_weather', description: 'Weather of a city', inputSchema: z.object({ city: z.string() }),
          run: (input) => {
            called.push(input.city);
            runner.setMessagesParams((params) => ({ ...params, tool_choice: { type: 'none' } }));
            return 'clear [[sim tokens=6]]';
          },
        })],
      });
      const answer = await runner;
      assert.equal(called.length, 1);
      assert.equal(answer.stop_reason, 'end_turn');
      assert.ok(answer.content.at(-1).text.length > 0);
    });

    it('thinks, and takes its thoughts back with their signature', async () => {
      const messages = ask('Say something.', 'tokens=25 reasoning=20');
      const thinking = { type: 'enabled', budget_tokens: 2000 };
      const whole = await create(messages, { thinking });
      const s = stream(messages, { thinking });
      let thought = '';
      s.on('thinking', (delta) => { thought += delta; });
      const streamed = await s.finalMessage();
      assert.equal(streamed.content[0].thinking, thought);
      for (const answer of [whole, streamed]) {
        checkAnswer(answer, model, 5);
        const [block] = answer.content;
        assert.equal(block.type, 'thinking');
        assert.ok(block.thinking.split(' ').length >= 10);
        assert.ok(block.signature || model === models.openai, 'there is no signature to hand back');
        assert.equal(answer.usage.output_tokens, 25);
        checkAnswer(await create([
          ...messages, { role: 'assistant', content: answer.content }, ...ask('Go on.', 'tokens=2 reasoning=0'),
        ], { thinking }), model, 2);
      }
    });

    it('thinks before it calls, and takes both back', async () => {
      const messages = ask('Weather?', 'tool=get_weather reasoning=12');
      const answer = await stream(messages, { tools, thinking: { type: 'enabled', budget_tokens: 2000 } }).finalMessage();
      assert.deepEqual(answer.content.map((block) => block.type), ['thinking', 'tool_use']);
      await handBack(messages, answer, ['get_weather']);
    });

    it('parses structured output', async () => {
      const schema = z.object({ title: z.string(), score: z.number().int() });
      const params = { model, max_tokens: 4000, messages: ask('A report.'), output_config: { format: zodOutputFormat(schema) } };
      const whole = await anthropic.messages.parse(params);
      const streamed = await anthropic.messages.stream(params).finalMessage();
      for (const answer of [whole, streamed]) {
        assert.deepEqual(schema.parse(answer.parsed_output), answer.parsed_output);
      }
    });

    it('takes a picture', async () => {
      const data = picture.split(',')[1];
      checkAnswer(await create([{
        role: 'user', content: [
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
          { type: 'text', text: 'What is it? [[sim tokens=3]]' },
        ],
      }]), model, 3);
    });

    it('counts tokens', async () => {
      const count = (messages, params) => anthropic.messages.countTokens({ model, messages, ...params });
      const few = (await count(ask('Hello.'))).input_tokens;
      const many = (await count(ask('Hello. '.repeat(100)))).input_tokens;
      const withTools = (await count(ask('Hello.'), { tools })).input_tokens;
      assert.ok(few >= 3 && few <= 30 && many >= 190 && many <= 260 && withTools > few + 20, `${few}, ${many}, ${withTools}`);
    });

    it('reports a failure in mid-stream', async () => {
      const s = stream(ask('Say a lot.', 'tokens=30 error_event=1 error_after=10'));
      let deltas = 0;
      s.on('text', () => { deltas++; });
      const err = await s.finalMessage().then(() => assert.fail('it succeeded'), (err) => err);
      assert.ok(err instanceof Anthropic.APIError, err.stack);
      assert.ok(deltas >= 5, `${deltas} deltas`);
      discreet(err.message);
    });

    it('hides a failure of its upstream', async () => {
      for (const [status, kind, wanted, type] of [
        [500, Anthropic.InternalServerError, 500, 'api_error'], [401, Anthropic.InternalServerError, 503, 'overloaded_error'],
        [429, Anthropic.RateLimitError, 429, 'overloaded_error'],
      ]) {
        const messages = ask('Hm.', `status=${status}`);
        await refused(create(messages), kind, wanted, type);
        await refused(stream(messages).finalMessage(), kind, wanted, type);
      }
    });
  });
}

describe('what messages refuse', () => {
  const create = (params, client = anthropic) =>
    client.messages.create({ model: models.openai, max_tokens: 100, messages: ask('Hm.', 'tokens=2'), ...params });

  it('is a BadRequestError that names the member', async () => {
    for (const [field, params] of [
      ['temperature', { temperature: 3 }], ['max_tokens', { max_tokens: 0 }], ['messages', { messages: [] }],
      ['messages.0.role', { messages: [{ role: 'cook', content: 'Hm.' }] }],
      ['thinking.budget_tokens', { thinking: { type: 'enabled' } }],
    ]) {
      const err = await refused(create(params), Anthropic.BadRequestError, 400, 'invalid_request_error');
      assert.ok(err.message.includes(field), `${field} is not named: ${err.message}`);
    }
  });

  it('is an AuthenticationError for a wrong key', () =>
    refused(create({}, connect('wrong')), Anthropic.AuthenticationError, 401, 'authentication_error'));

  it('takes the key as a bearer token too', () => create({}, connect(null, { authToken: keys.rich })));

  it('is a 402 for an account without money', () =>
    refused(create({}, connect(keys.poor)), Anthropic.APIError, 402, 'billing_error'));

  it('is a NotFoundError for an unknown model', () =>
    refused(create({ model: 'nothing' }), Anthropic.NotFoundError, 404, 'not_found_error'));

  it('is a RateLimitError beyond a limit', async () => {
    const limited = connect(keys.limited);
    for (let i = 0; i < 2; i++) {
      await create({ model: models.limited }, limited);
    }
    const err = await refused(create({ model: models.limited }, limited), Anthropic.RateLimitError, 429, 'rate_limit_error');
    assert.ok(Number(err.headers.get('retry-after')) >= 1);
  });

  it('is asked again by the package when the upstream failed', async () => {
    const answer = await create({ messages: ask('Hm.', `tokens=3 fail_first=1 id=once-${process.pid}`) }, connect(keys.rich, { maxRetries: 2 }));
    assert.equal(answer.usage.output_tokens, 3);
  });
});
