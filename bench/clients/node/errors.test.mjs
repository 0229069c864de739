import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import OpenAI from 'openai';
import { ask, connect, issue, keys, models, picture, refused, report, weather, words } from './gateway.mjs';

const model = models.openai;
const openai = connect();
const create = (params, client = openai) =>
  client.chat.completions.create({ model, messages: ask('Say something.', 'tokens=2'), ...params });

describe('a bad request is a BadRequestError', () => {
  it('that names the field and its range', async () => {
    const { err, body } = await refused(create({ temperature: 3 }), OpenAI.BadRequestError, 400);
    const { message, maximum } = issue(body, 'temperature');
    assert.equal(maximum, 2);
    assert.match(message, /2/);
    assert.ok(body.details.temperature._errors.includes(message));
    assert.ok(err.message.startsWith('400 '));
  });

  it('for each numeric limit', async () => {
    for (const [field, value] of [
      ['temperature', -0.1], ['top_p', 1.5], ['frequency_penalty', 2.5], ['presence_penalty', -2.1], ['max_completion_tokens', 1.5],
    ]) {
      const { body } = await refused(create({ [field]: value, user: field }), OpenAI.BadRequestError, 400);
      issue(body, field);
    }
  });

  it('for max_tokens, naming max_completion_tokens', async () => {
    const { body } = await refused(create({ max_tokens: 5 }), OpenAI.BadRequestError, 400);
    assert.match(JSON.stringify(body), /max_completion_tokens/);
  });

  it('for messages that are missing, empty or of another type', async () => {
    for (const messages of [undefined, [], 'Hello']) {
      const { body } = await refused(create({ messages, user: 'messages' }), OpenAI.BadRequestError, 400);
      issue(body, 'messages');
    }
  });

  it('for more than four stop sequences', async () => {
    const { body } = await refused(create({ stop: ['a', 'b', 'c', 'd', 'e'] }), OpenAI.BadRequestError, 400);
    issue(body, 'stop');
  });

  it('for what the model cannot do', async () => {
    const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: picture } }] }];
    for (const params of [{ tools: [weather] }, { response_format: report }, { messages: image }, { logprobs: true }]) {
      await refused(create({ model: models.plain, ...params }), OpenAI.BadRequestError, 400);
    }
  });

  it('for what only the upstream refuses, with its words', async () => {
    for (const name of [models.openai, models.anthropic]) {
      const { body } = await refused(
        create({ model: name, messages: ask('Hm.', 'status=400'), user: 'upstream' }), OpenAI.BadRequestError, 400,
      );
      assert.match(words(body), /temperature/);
      assert.match(body.request_id, /^[0-9a-f]{32}$/);
    }
  });

  it('for a prompt longer than the model takes, with a code', async () => {
    const { err } = await refused(create({ messages: ask('Hm.', 'status=400 kind=context') }), OpenAI.BadRequestError, 400);
    assert.equal(err.code, 'context_length_exceeded');
    assert.equal(err.param, 'messages');
    assert.equal(err.type, 'invalid_request_error');
  });
});

describe('a credential that is not good is an AuthenticationError', () => {
  it('when it is unknown', async () => {
    await refused(create({}, connect('SVC_INFERENCE_KEY_unknown')), OpenAI.AuthenticationError, 401);
  });

  it('when it is missing', async () => {
    const anonymous = connect('unused', { defaultHeaders: { Authorization: null } });
    await refused(create({}, anonymous), OpenAI.AuthenticationError, 401);
    await refused(anonymous.models.list(), OpenAI.AuthenticationError, 401);
  });

  it('also for a stream and for embeddings', async () => {
    const stranger = connect('SVC_INFERENCE_KEY_stranger');
    await refused(create({ stream: true }, stranger), OpenAI.AuthenticationError, 401);
    await refused(stranger.embeddings.create({ model: models.embedding, input: 'x' }), OpenAI.AuthenticationError, 401);
  });
});

describe('an account without money is refused with 402', () => {
  for (const stream of [false, true]) {
    it(stream ? 'for a stream' : 'for an answer in one piece', async () => {
      const { err, body } = await refused(create({ stream }, connect(keys.poor)), OpenAI.APIError, 402);
      assert.equal(err.constructor, OpenAI.APIError);
      assert.equal(body.code, 'INSUFFICIENT_BALANCE');
      assert.match(words(body), /balance/i);
    });
  }
});

describe('a model that does not exist is a NotFoundError', () => {
  it('for chat and embeddings', async () => {
    const { body } = await refused(create({ model: 'no-such-model' }), OpenAI.NotFoundError, 404);
    assert.match(words(body), /no-such-model/);
    await refused(openai.embeddings.create({ model: 'no-such-model', input: 'x' }), OpenAI.NotFoundError, 404);
  });
});

describe('too many requests are a RateLimitError', () => {
  it('with the time to wait', async () => {
    const limited = connect(keys.limited);
    for (const left of ['1', '0']) {
      const { response } = await limited.chat.completions
        .create({ model: models.limited, messages: ask('Once more.', 'tokens=2') })
        .withResponse();
      assert.equal(response.headers.get('x-ratelimit-limit-requests'), '2');
      assert.equal(response.headers.get('x-ratelimit-remaining-requests'), left);
    }
    const { err, body } = await refused(create({ model: models.limited }, limited), OpenAI.RateLimitError, 429);
    const wait = Number(err.headers.get('retry-after'));
    assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 60, `Retry-After is ${err.headers.get('retry-after')}`);
    assert.equal(body.code, 'RATE_LIMIT_EXCEEDED');
    assert.equal(err.headers.get('x-ratelimit-type'), 'user');
  });
});

describe('a failing upstream', () => {
  for (const name of [models.openai, models.anthropic]) {
    it(`of ${name} is a failure of the service, not of the client`, async () => {
      for (const status of [401, 403, 500, 502, 503]) {
        const call = create({ model: name, messages: ask('Hm.', `status=${status}`) });
        const err = await call.catch((err) => err);
        await refused(Promise.reject(err), OpenAI.InternalServerError, err.status);
        assert.ok(err.status >= 500, `upstream ${status} became ${err.status}`);
      }
    });

    it(`of ${name} that is overloaded says when to come back`, async () => {
      const { err } = await refused(
        create({ model: name, messages: ask('Hm.', 'status=429 retry_after=7') }), OpenAI.RateLimitError, 429,
      );
      assert.equal(err.headers.get('retry-after'), '7');
    });
  }

  it('that is cut in an answer is an InternalServerError', async () => {
    await refused(create({ messages: ask('Hm.', 'tokens=50 truncate=1') }), OpenAI.InternalServerError, 502);
  });

  it('is asked again by the package and answers', async () => {
    const patient = connect(keys.rich, { maxRetries: 2 });
    const id = `retry-${process.pid}`;
    const answer = await create({ messages: ask('Hm.', `tokens=3 fail_first=1 id=${id}`) }, patient);
    assert.equal(answer.usage.completion_tokens, 3);
  });
});
