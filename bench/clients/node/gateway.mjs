// How the tests reach the gateway: `make test-long` starts one and sets these
// variables; tests/clients/openai_test.go has the config they fit.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

function need(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set; these tests are started by: go test -C tests -run TestLongOpenAINode ./clients`);
  }
  return value;
}

export const url = need('FAREBOX_URL');
export const keys = {
  rich: need('FAREBOX_KEY'),
  poor: need('FAREBOX_POOR_KEY'), // its account has no money
  limited: need('FAREBOX_LIMITED_KEY'), // its account may ask models.limited twice a minute
};
export const models = {
  openai: need('FAREBOX_MODEL'),
  anthropic: need('FAREBOX_ANTHROPIC_MODEL'),
  embedding: need('FAREBOX_EMBEDDING_MODEL'),
  limited: need('FAREBOX_LIMITED_MODEL'),
  plain: need('FAREBOX_PLAIN_MODEL'), // text only: no tools, no images, no schemas
  alias: need('FAREBOX_ALIAS'), // a foreign name of models.openai
  loose: need('FAREBOX_LOOSE_MODEL'), // its upstream does not see to schemas
  native: 'sim-responses', // its upstream speaks /responses itself
  responses: need('FAREBOX_RESPONSES_MODELS').split(' '), // one of each way that /responses is served
  messages: need('FAREBOX_MESSAGES_MODELS').split(' '), // the same of /messages
};

// What the simulated upstream puts into its error texts to see whether a
// gateway lets it through.
const secrets = ['org-simsecret0001', 'sk-simsecret', 'backend-7', 'internal.simulated', 'simulated.example', '127.0.0.1'];

// The package shows only the `error` member of a refusal, so that the whole
// body is kept here.
let refusal;

async function keepRefusal(input, init) {
  const response = await fetch(input, init);
  if (!response.ok) {
    refusal = await response.clone().json();
  }
  return response;
}

export function connect(apiKey = keys.rich, options = {}) {
  return new OpenAI({ baseURL: url, apiKey, maxRetries: 0, timeout: 30_000, fetch: keepRefusal, ...options });
}

// ask is one user message; what stands in scenario is done by the upstream.
export function ask(text, scenario = '') {
  return [{ role: 'user', content: scenario ? `${text} [[sim ${scenario}]]` : text }];
}

// refused waits for a call to fail with one class of errors and gives the error
// and the body of the answer.
export async function refused(call, kind, status) {
  refusal = undefined;
  const err = await call.then(
    () => assert.fail(`expected ${kind.name}, but the call succeeded`),
    (err) => err,
  );
  assert.ok(err instanceof kind, `expected ${kind.name}, got ${err?.constructor?.name}: ${err?.stack}`);
  assert.equal(err.status, status);
  assert.match(err.requestID ?? '', /^[0-9a-f]{32}$/, 'an error must name its request');
  discreet(JSON.stringify(refusal) + err.message);
  return { err, body: refusal };
}

// words is the text of a refusal, whether `error` is a text or OpenAI's object.
export function words(body) {
  return typeof body.error === 'string' ? body.error : body.error.message;
}

// discreet asserts that nothing of the upstream's inside reached the client.
export function discreet(text) {
  for (const secret of secrets) {
    assert.ok(!text.includes(secret), `the upstream's ${secret} reached the client: ${text}`);
  }
}

// issue finds the validation issue of a field.
export function issue(body, field) {
  const found = body.issues?.find((i) => i.path.join('.') === field);
  assert.ok(found, `no issue names ${field}: ${JSON.stringify(body)}`);
  return found;
}

export const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
      required: ['city', 'days'],
      additionalProperties: false,
    },
  },
};

export const time = {
  type: 'function',
  function: {
    name: 'get_time',
    description: 'Time in a zone',
    parameters: { type: 'object', properties: { zone: { type: 'string' } }, required: ['zone'] },
  },
};

export const report = {
  type: 'json_schema',
  json_schema: {
    name: 'report',
    strict: true,
    schema: {
      type: 'object',
      properties: {
        title: { type: 'string' },
        score: { type: 'integer' },
        tags: { type: 'array', items: { type: 'string' } },
      },
      required: ['title', 'score', 'tags'],
      additionalProperties: false,
    },
  },
};

// 64 x 64 black pixels, the smallest image the interface allows.
export const picture =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAD0lEQVR42mNgGAWjgHwAAAJAAAHgTR1EAAAAAElFTkSuQmCC';

export function checkUsage(usage, completion) {
  assert.ok(usage, 'there is no usage');
  assert.ok(usage.prompt_tokens > 0, `prompt_tokens is ${usage.prompt_tokens}`);
  if (completion !== undefined) {
    assert.equal(usage.completion_tokens, completion);
  } else {
    assert.ok(usage.completion_tokens > 0, `completion_tokens is ${usage.completion_tokens}`);
  }
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
}
