import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import OpenAI from 'openai';
import { ask, checkUsage, connect, discreet, models, picture, report, time, weather } from './gateway.mjs';

const openai = connect();

// Clients must not notice which dialect the upstream of a model speaks.
for (const dialect of ['openai', 'anthropic']) {
  const model = models[dialect];

  describe(`chat, upstream dialect ${dialect}`, () => {
    it('answers in one piece', async () => {
      const before = Math.floor(Date.now() / 1000);
      const { data, response } = await openai.chat.completions
        .create({ model, messages: [{ role: 'system', content: 'Be brief.' }, ...ask('Say something.', 'tokens=12')] })
        .withResponse();
      assert.match(data.id, /^chatcmpl-/);
      assert.equal(data.object, 'chat.completion');
      assert.ok(data.created >= before - 1 && data.created <= before + 60, `created is ${data.created}`);
      assert.equal(data.model, model);
      assert.equal(data.choices.length, 1);
      const [choice] = data.choices;
      assert.equal(choice.index, 0);
      assert.equal(choice.finish_reason, 'stop');
      assert.equal(choice.message.role, 'assistant');
      assert.equal(choice.message.content.split(' ').length, 12);
      checkUsage(data.usage, 12);
      assert.match(response.headers.get('content-type'), /^application\/json/);
      assert.match(data._request_id, /^[0-9a-f]{32}$/);
      discreet(JSON.stringify([...response.headers]));
    });

    it('stops at max_completion_tokens', async () => {
      const answer = await openai.chat.completions.create({
        model, max_completion_tokens: 7, messages: ask('Say a lot.'),
      });
      assert.equal(answer.choices[0].finish_reason, 'length');
      checkUsage(answer.usage, 7);
    });

    it('streams chunks as they are made', async () => {
      const stream = await openai.chat.completions.create({
        model, stream: true, messages: ask('Say something.', 'tokens=20 gap_ms=20'),
      });
      const chunks = [];
      const arrived = [];
      for await (const chunk of stream) {
        chunks.push(chunk);
        arrived.push(performance.now());
      }
      const spread = arrived.at(-1) - arrived[0];
      assert.ok(spread > 150, `20 chunks made 20 ms apart arrived within ${spread} ms: they were held back`);
      for (const chunk of chunks) {
        assert.equal(chunk.object, 'chat.completion.chunk');
        assert.equal(chunk.id, chunks[0].id);
        assert.equal(chunk.model, model);
        assert.equal(chunk.created, chunks[0].created);
      }
      assert.match(chunks[0].id, /^chatcmpl-/);
      assert.equal(chunks[0].choices[0].delta.role, 'assistant');
      const text = chunks.map((c) => c.choices[0]?.delta?.content ?? '').join('');
      assert.equal(text.split(' ').length, 20);
      const finished = chunks.filter((c) => c.choices[0]?.finish_reason);
      assert.deepEqual(finished.map((c) => c.choices[0].finish_reason), ['stop']);
      assert.deepEqual(chunks.at(-1).choices, [], 'usage comes last, without choices');
      checkUsage(chunks.at(-1).usage, 20);
    });

    it('streams text that is not ASCII without breaking a character', async () => {
      const stream = await openai.chat.completions.create({
        model, stream: true, messages: ask('Say something.', 'tokens=40 unicode=1 split=utf8'),
      });
      let text = '';
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta?.content ?? '';
      }
      assert.ok(!text.includes('\ufffd'), text);
      assert.match(text, /[^\x00-\x7f]/);
      assert.equal(text.split(' ').length, 40);
    });

    it('shows usage in a stream unless the client said include_usage: false', async () => {
      for (const [options, shown] of [[{ include_usage: true }, 1], [undefined, 1], [{ include_usage: false }, 0]]) {
        const stream = await openai.chat.completions.create({
          model, stream: true, stream_options: options, messages: ask('Say something.', 'tokens=5'),
        });
        let usages = 0;
        let empty = 0;
        for await (const chunk of stream) {
          usages += chunk.usage ? 1 : 0;
          empty += chunk.choices.length === 0 ? 1 : 0;
        }
        assert.deepEqual({ usages, empty }, { usages: shown, empty: shown }, `stream_options ${JSON.stringify(options)}`);
      }
    });

    it('calls a tool and takes its result', async () => {
      const messages = ask('Weather in Oslo?');
      const first = await openai.chat.completions.create({
        model, messages, tools: [weather, time],
        tool_choice: { type: 'function', function: { name: 'get_weather' } },
      });
      const [choice] = first.choices;
      assert.equal(choice.finish_reason, 'tool_calls');
      assert.equal(choice.message.tool_calls.length, 1);
      const [call] = choice.message.tool_calls;
      assert.equal(call.type, 'function');
      assert.equal(call.function.name, 'get_weather');
      assert.deepEqual(Object.keys(JSON.parse(call.function.arguments)).sort(), ['city', 'days']);
      checkUsage(first.usage);

      const second = await openai.chat.completions.create({
        model, tools: [weather, time],
        messages: [...messages, choice.message, { role: 'tool', tool_call_id: call.id, content: '{"sky":"clear"}' }],
      });
      assert.equal(second.choices[0].finish_reason, 'stop');
      assert.ok(second.choices[0].message.content.length > 0);
      assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens - 20);
    });

    it('streams tool calls in fragments that make whole arguments', async () => {
      const stream = openai.chat.completions.stream({
        model, tools: [weather, time], messages: ask('Weather and time?', 'tool=all'),
      });
      let fragments = 0;
      stream.on('chunk', (chunk) => {
        fragments += chunk.choices[0]?.delta?.tool_calls?.length ?? 0;
      });
      const answer = await stream.finalChatCompletion();
      const calls = answer.choices[0].message.tool_calls;
      assert.equal(answer.choices[0].finish_reason, 'tool_calls');
      assert.deepEqual(calls.map((c) => c.function.name), ['get_weather', 'get_time']);
      assert.ok(calls[0].id && calls[1].id && calls[0].id !== calls[1].id);
      assert.deepEqual(Object.keys(JSON.parse(calls[0].function.arguments)).sort(), ['city', 'days']);
      assert.deepEqual(Object.keys(JSON.parse(calls[1].function.arguments)), ['zone']);
      assert.ok(fragments > 4, `the arguments came in ${fragments} fragments`);
      checkUsage(answer.usage);
    });

    for (const stream of [false, true]) {
      it(`runs tools, ${stream ? 'streamed' : 'in one piece'}`, async () => {
        let asked;
        const runner = openai.chat.completions.runTools({
          model, stream, messages: ask('Weather in Oslo?'),
          tool_choice: { type: 'function', function: { name: 'get_weather' } },
          tools: [{
            type: 'function',
            function: { ...weather.function, parse: JSON.parse, function: (args) => { asked = args; return 'clear'; } },
          }],
        });
        await runner.done();
        assert.deepEqual(Object.keys(asked ?? {}).sort(), ['city', 'days']);
        assert.equal(runner.messages.at(-1).role, 'tool');
      });
    }

    it('answers with JSON that fits a schema', async () => {
      const answer = await openai.chat.completions.parse({ model, response_format: report, messages: ask('Report.') });
      const { parsed } = answer.choices[0].message;
      assert.deepEqual(Object.keys(parsed).sort(), ['score', 'tags', 'title']);
      assert.equal(typeof parsed.score, 'number');
      assert.ok(Array.isArray(parsed.tags));

      const streamed = await openai.chat.completions
        .stream({ model, response_format: report, messages: ask('Report.') })
        .finalChatCompletion();
      assert.deepEqual(streamed.choices[0].message.parsed, parsed);
    });

    it('takes an image', async () => {
      const answer = await openai.chat.completions.create({
        model,
        messages: [{
          role: 'user',
          content: [
            { type: 'text', text: 'What is this? [[sim tokens=6]]' },
            { type: 'image_url', image_url: { url: picture } },
          ],
        }],
      });
      checkUsage(answer.usage, 6);
      assert.ok(answer.usage.prompt_tokens > 85, 'the image is part of the prompt');
    });

    it('shows reasoning apart from the answer', async () => {
      const answer = await openai.chat.completions.create({
        model, reasoning_effort: 'low', messages: ask('Think.', 'tokens=24 reasoning=8'),
      });
      const { message } = answer.choices[0];
      assert.equal(message.reasoning_content.split(' ').length, 8);
      assert.equal(message.content.split(' ').length, 16);
      assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 8);
      checkUsage(answer.usage, 24);
    });

    it('ends a stream when the client aborts it', async () => {
      const controller = new AbortController();
      const stream = await openai.chat.completions.create(
        { model, stream: true, messages: ask('Say a lot.', 'tokens=500 gap_ms=20') },
        { signal: controller.signal },
      );
      let chunks = 0;
      const began = performance.now();
      for await (const _ of stream) {
        if (++chunks === 5) {
          controller.abort();
        }
      }
      assert.ok(chunks < 50, `${chunks} chunks came after the abort`);
      assert.ok(performance.now() - began < 5000);
    });

    it('ends a stream when the client leaves the loop', async () => {
      const stream = await openai.chat.completions.create({
        model, stream: true, messages: ask('Say a lot.', 'tokens=500 gap_ms=20'),
      });
      for await (const chunk of stream) {
        if (chunk.choices[0]?.delta?.content) break;
      }
      assert.ok(stream.controller.signal.aborted);
    });

    it('gives up before the first byte when the client aborts', async () => {
      const controller = new AbortController();
      const call = openai.chat.completions.create(
        { model, messages: ask('Wait.', 'delay_ms=5000') },
        { signal: controller.signal },
      );
      setTimeout(() => controller.abort(), 200);
      await assert.rejects(call, OpenAI.APIUserAbortError);
    });

    it('reports a failure in mid-stream as an error of the stream', async () => {
      for (const fault of ['error_event=1 error_after=5', 'cut=fin cut_after=5', 'cut=rst cut_after=5']) {
        const stream = await openai.chat.completions.create({
          model, stream: true, messages: ask('Say a lot.', `tokens=40 gap_ms=5 ${fault}`),
        });
        let text = '';
        const err = await (async () => {
          for await (const chunk of stream) {
            text += chunk.choices[0]?.delta?.content ?? '';
          }
        })().then(() => undefined, (err) => err);
        assert.ok(err instanceof OpenAI.APIError, `${fault}: the stream ended with ${err}`);
        assert.ok(['model_overloaded', 'upstream_error'].includes(err.code), `${fault}: code ${err.code}`);
        assert.ok(err.type && err.error.message, `${fault}: ${JSON.stringify(err.error)}`);
        assert.equal(text.split(' ').length, 5, `${fault}: text before the failure: ${text}`);
        discreet(JSON.stringify(err.error));
      }
    });
  });
}

describe('chat', () => {
  const model = models.openai;

  it('gives n choices, in one piece and streamed', async () => {
    const answer = await openai.chat.completions.create({ model, n: 3, messages: ask('Say something.', 'tokens=6') });
    assert.deepEqual(answer.choices.map((c) => c.index), [0, 1, 2]);
    checkUsage(answer.usage, 18);

    const texts = ['', ''];
    let usage;
    const stream = await openai.chat.completions.create({
      model, n: 2, stream: true, messages: ask('Say something.', 'tokens=6'),
    });
    for await (const chunk of stream) {
      for (const choice of chunk.choices) {
        texts[choice.index] += choice.delta.content ?? '';
      }
      usage = chunk.usage ?? usage;
    }
    assert.deepEqual(texts.map((t) => t.split(' ').length), [6, 6]);
    checkUsage(usage, 12);
  });

  it('reports cached prompt tokens', async () => {
    const answer = await openai.chat.completions.create({
      model, messages: ask('A long question about rivers, boats and the weather of the north.', 'tokens=4 cached=10'),
    });
    assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 10);
  });

  it('knows a model by its foreign name and with a feature suffix', async () => {
    for (const name of [models.alias, `${model}:strip_thinking_response=true`]) {
      const answer = await openai.chat.completions.create({ model: name, messages: ask('Say something.', 'tokens=4') });
      checkUsage(answer.usage, 4);
    }
  });

  it('passes unknown fields, a user and metadata', async () => {
    const answer = await openai.chat.completions.create({
      model, user: 'someone', metadata: { order: '17' }, store: false, made_up_field: { deep: [1, 2] },
      messages: ask('Say something.', 'tokens=4'),
    });
    checkUsage(answer.usage, 4);
  });

  it('answers 20 calls at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        openai.chat.completions.create({ model, messages: ask(`Call ${i}.`, `tokens=${i + 1} delay_ms=30`) })),
    );
    answers.forEach((answer, i) => checkUsage(answer.usage, i + 1));
  });
});
