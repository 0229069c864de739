// POST /responses as the openai package sees it, over every kind of upstream.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import OpenAI from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { connect, discreet, issue, keys, models, picture, refused, words } from './gateway.mjs';

const openai = connect();

// said is a text with what the upstream is to do.
const said = (text, scenario) => (scenario ? `${text} [[sim ${scenario}]]` : text);

const tools = [
  {
    type: 'function', name: 'get_weather', description: 'Weather of a city', strict: true,
    parameters: {
      type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } }, required: ['city', 'days'],
      additionalProperties: false,
    },
  },
  {
    type: 'function', name: 'get_time', description: 'Time in a zone', strict: false,
    parameters: { type: 'object', properties: { zone: { type: 'string' } }, required: ['zone'] },
  },
];

const Report = z.object({ title: z.string(), score: z.number().int(), tags: z.array(z.string()) });

function checkUsage(usage, output) {
  assert.ok(usage.input_tokens > 0);
  if (output !== undefined) {
    assert.equal(usage.output_tokens, output);
  }
  assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  assert.equal(typeof usage.input_tokens_details.cached_tokens, 'number');
  assert.equal(typeof usage.output_tokens_details.reasoning_tokens, 'number');
}

function checkAnswer(answer, model, count) {
  assert.match(answer.id, /^resp_/);
  assert.equal(answer.object, 'response');
  assert.equal(answer.model, model);
  assert.equal(answer.status, 'completed');
  assert.equal(answer.error, null);
  assert.equal(answer.incomplete_details, null);
  assert.equal(answer.output_text.split(' ').length, count, answer.output_text);
  const message = answer.output.at(-1);
  assert.equal(message.type, 'message');
  assert.equal(message.role, 'assistant');
  assert.equal(message.status, 'completed');
  assert.match(message.id, /^msg_/);
}

// back is what an answer said, as the next input: without what the package's own
// helpers add to it, which upstreams refuse that speak /responses themselves.
const back = (answer) => JSON.parse(JSON.stringify(answer.output, (key, value) => (key.startsWith('parsed') ? undefined : value)));

// handBack gives the results of an answer's calls back and asks again.
async function handBack(model, input, answer, names) {
  const calls = answer.output.filter((item) => item.type === 'function_call');
  assert.equal(answer.status, 'completed');
  assert.deepEqual(calls.map((c) => c.name), names);
  assert.equal(new Set(calls.map((c) => c.call_id)).size, calls.length, 'two calls have one id');
  for (const call of calls) {
    const wanted = call.name === 'get_weather' ? ['city', 'days'] : ['zone'];
    assert.deepEqual(Object.keys(JSON.parse(call.arguments)).sort(), wanted);
    assert.equal(call.status, 'completed');
  }
  const second = await openai.responses.create({
    model, tools,
    input: [
      ...input, ...back(answer),
      ...calls.map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: '{"result":"clear"}' })),
      { role: 'user', content: said('So?', 'tokens=4') },
    ],
  });
  checkAnswer(second, model, 4);
  assert.ok(second.usage.input_tokens > answer.usage.input_tokens);
}

for (const model of models.responses) {
  describe(`responses of ${model}`, () => {
    const create = (input, params) => openai.responses.create({ model, input, ...params });

    it('answers in one piece', async () => {
      const { data, response } = await openai.responses
        .create({ model, instructions: 'Be brief.', input: said('Say something.', 'tokens=12'), metadata: { a: 'b' } })
        .withResponse();
      checkAnswer(data, model, 12);
      checkUsage(data.usage, 12);
      assert.match(data._request_id, /^[0-9a-f]{32}$/);
      discreet(JSON.stringify([...response.headers]));
    });

    it('goes on with what it said', async () => {
      const input = [{ role: 'user', content: said('Say something.', 'tokens=3') }];
      const first = await create(input, { store: false });
      const second = await create([...input, ...first.output, { role: 'user', content: said('More.', 'tokens=5') }]);
      checkAnswer(second, model, 5);
      assert.ok(second.usage.input_tokens > first.usage.input_tokens);
    });

    it('streams events that add up', async () => {
      const stream = openai.responses.stream({ model, input: said('Say something.', 'tokens=20') });
      let text = '';
      let number = -1;
      stream.on('response.output_text.delta', (event) => {
        text += event.delta;
        assert.equal(event.snapshot, text);
      });
      stream.on('event', (event) => {
        assert.ok(event.sequence_number > number);
        number = event.sequence_number;
      });
      const answer = await stream.finalResponse();
      checkAnswer(answer, model, 20);
      assert.equal(answer.output_text, text);
      checkUsage(answer.usage, 20);
    });

    it('streams text that is not ASCII without breaking a character', async () => {
      const answer = await openai.responses
        .stream({ model, input: said('Say something.', 'tokens=40 unicode=1 split=utf8') }).finalResponse();
      assert.ok(!answer.output_text.includes('\ufffd'), answer.output_text);
      assert.match(answer.output_text, /[^\x00-\x7f]/);
      assert.equal(answer.output_text.split(' ').length, 40);
    });

    it('says that it is incomplete, and why', async () => {
      const params = { model, input: 'Say a lot.', max_output_tokens: 16 };
      const streamed = openai.responses.stream(params);
      let end;
      streamed.on('response.incomplete', (event) => { end = event.response; });
      await streamed.done().catch(() => {}); // the package wants a completed response
      for (const answer of [await openai.responses.create(params), end]) {
        assert.equal(answer?.status, 'incomplete');
        assert.deepEqual(answer.incomplete_details, { reason: 'max_output_tokens' });
        assert.ok(answer.output.at(-1).status === 'incomplete' || model === models.native);
        checkUsage(answer.usage, 16);
      }
    });

    it('parses structured output, streamed or not', async () => {
      const params = { model, input: 'A report.', text: { format: zodTextFormat(Report, 'report') } };
      const whole = await openai.responses.parse(params);
      const streamed = await openai.responses.stream(params).finalResponse();
      for (const answer of [whole, streamed]) {
        assert.deepEqual(Report.parse(answer.output_parsed), answer.output_parsed);
        checkUsage(answer.usage);
      }
    });

    it('parses the arguments of functions', async () => {
      const answer = await openai.responses.parse({
        model, input: 'Weather?', tool_choice: { type: 'function', name: 'get_weather' },
        tools: [zodResponsesFunction({ name: 'get_weather', parameters: z.object({ city: z.string() }) })],
      });
      assert.equal(typeof answer.output.at(-1).parsed_arguments.city, 'string');
    });

    it('calls functions and takes their results', async () => {
      const input = [{ role: 'user', content: said('Weather and time?', 'tool=all') }];
      await handBack(model, input, await create(input, { tools }), ['get_weather', 'get_time']);
      const one = [{ role: 'user', content: 'Time?' }];
      const params = { tools, tool_choice: { type: 'function', name: 'get_time' }, parallel_tool_calls: false };
      await handBack(model, one, await create(one, params), ['get_time']);
    });

    it('streams parallel calls in fragments', async () => {
      const input = [{ role: 'user', content: said('Weather and time?', 'tool=all') }];
      const stream = openai.responses.stream({ model, input, tools });
      const fragments = {};
      stream.on('response.function_call_arguments.delta', (event) => {
        fragments[event.output_index] = (fragments[event.output_index] ?? 0) + 1;
      });
      const answer = await stream.finalResponse();
      assert.equal(Object.keys(fragments).length, 2);
      assert.ok(Object.values(fragments).every((n) => n > 1), JSON.stringify(fragments));
      await handBack(model, input, answer, ['get_weather', 'get_time']);
    });

    it('thinks, and takes its thoughts back', async () => {
      const input = [{ role: 'user', content: said('Say something.', 'tokens=25 reasoning=20') }];
      const params = {
        model, input, reasoning: { effort: 'medium', summary: 'auto' }, include: ['reasoning.encrypted_content'], store: false,
      };
      const whole = await openai.responses.create(params);
      const streamed = await openai.responses.stream(params).finalResponse();
      for (const answer of [whole, streamed]) {
        checkAnswer(answer, model, 5);
        const [thought] = answer.output;
        assert.equal(thought.type, 'reasoning');
        assert.match(thought.id, /^rs_/);
        assert.ok(thought.summary[0].text.split(' ').length >= 10, JSON.stringify(thought));
        assert.ok(thought.encrypted_content || model === models.openai, 'there is nothing to hand back');
        checkUsage(answer.usage, 25);
        assert.ok(answer.usage.output_tokens_details.reasoning_tokens > 0);
        const next = await openai.responses.create({
          ...params, input: [...input, ...back(answer), { role: 'user', content: said('Go on.', 'tokens=2 reasoning=0') }],
        });
        checkAnswer(next, model, 2);
      }
    });

    it('thinks before it calls, and takes both back', async () => {
      const input = [{ role: 'user', content: said('Weather?', 'tool=get_weather reasoning=12') }];
      const answer = await openai.responses
        .stream({ model, input, tools, reasoning: { effort: 'low' }, include: ['reasoning.encrypted_content'] })
        .finalResponse();
      assert.deepEqual(answer.output.map((item) => item.type), ['reasoning', 'function_call']);
      await handBack(model, input, answer, ['get_weather']);
    });

    it('takes a picture', async () => {
      const content = [
        { type: 'input_text', text: said('What is it?', 'tokens=3') },
        { type: 'input_image', image_url: picture, detail: 'low' },
      ];
      checkAnswer(await create([{ role: 'user', content }]), model, 3);
    });

    it('reports a failure in mid-stream', async () => {
      const stream = openai.responses.stream({ model, input: said('Say a lot.', 'tokens=30 error_event=1 error_after=10') });
      let deltas = 0;
      let failed;
      stream.on('response.output_text.delta', () => { deltas++; });
      stream.on('response.failed', (event) => { failed = event.response; });
      const err = await stream.finalResponse().then(() => assert.fail('it succeeded'), (err) => err);
      assert.ok(err instanceof OpenAI.OpenAIError, err.stack);
      assert.ok(deltas >= 5, `${deltas} deltas`);
      assert.ok(failed || err instanceof OpenAI.APIError, err.stack);
      discreet(err.message + JSON.stringify(failed ?? {}));
    });

    it('hides a failure of its upstream', async () => {
      for (const [status, kind, wanted] of [
        [500, OpenAI.InternalServerError, 500], [401, OpenAI.InternalServerError, 503], [429, OpenAI.RateLimitError, 429],
      ]) {
        const params = { model, input: said('Hm.', `status=${status}`) };
        await refused(openai.responses.create(params), kind, wanted);
        await refused(openai.responses.create({ ...params, stream: true }), kind, wanted);
      }
    });
  });
}

describe('what responses refuse', () => {
  const create = (params, client = openai) => client.responses.create({ model: models.openai, input: 'Hm.', ...params });

  it('is a BadRequestError that names the member', async () => {
    for (const [field, params] of [
      ['temperature', { temperature: 3 }], ['input', { input: [] }], ['max_output_tokens', { max_output_tokens: 0 }],
      ['input.0.role', { input: [{ role: 'cook', content: 'Hm.' }] }], ['tools.0.name', { tools: [{ type: 'function' }] }],
      ['text.format.schema', { text: { format: { type: 'json_schema', name: 'x' } } }],
      ['input.0.content.0.file_id', { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }] }],
    ]) {
      const { body } = await refused(create(params), OpenAI.BadRequestError, 400);
      issue(body, field);
    }
    await refused(create({ input: [{ type: 'item_reference', id: 'msg_1' }] }), OpenAI.NotFoundError, 404);
  });

  it('is an AuthenticationError for a wrong key', () => refused(create({}, connect('wrong')), OpenAI.AuthenticationError, 401));

  it('is a 402 for an account without money', async () => {
    const { body } = await refused(create({}, connect(keys.poor)), OpenAI.APIError, 402);
    assert.match(words(body), /[Bb]alance/);
  });

  it('is a NotFoundError for an unknown model', async () => {
    const { body } = await refused(create({ model: 'nothing' }), OpenAI.NotFoundError, 404);
    assert.match(words(body), /nothing/);
  });

  it('is an UnprocessableEntityError for an answer that breaks its schema', async () => {
    const { body } = await refused(create({
      model: models.loose, input: said('A report.', 'echo=unfit'),
      text: { format: zodTextFormat(Report, 'report') },
    }), OpenAI.UnprocessableEntityError, 422);
    assert.equal(body.code, 'OUTPUT_SCHEMA_VIOLATION');
  });

  it('is a RateLimitError beyond a limit', async () => {
    const limited = connect(keys.limited);
    for (let i = 0; i < 2; i++) {
      await create({ model: models.limited, input: said('Hm.', 'tokens=2') }, limited);
    }
    const { err } = await refused(create({ model: models.limited }, limited), OpenAI.RateLimitError, 429);
    assert.ok(Number(err.headers.get('retry-after')) >= 1);
  });

  it('is asked again by the package when the upstream failed', async () => {
    const answer = await create({ input: said('Hm.', `tokens=3 fail_first=1 id=again-${process.pid}`) }, connect(keys.rich, { maxRetries: 2 }));
    assert.equal(answer.usage.output_tokens, 3);
  });
});
