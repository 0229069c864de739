import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import OpenAI from 'openai';
import { connect, issue, models, refused } from './gateway.mjs';

const openai = connect();
const model = models.embedding;

describe('embeddings', () => {
  it('are numbers, whichever encoding travels', async () => {
    const usual = await openai.embeddings.create({ model, input: 'A river' }); // asks for base64 and decodes it
    const float = await openai.embeddings.create({ model, input: 'A river', encoding_format: 'float' });
    const base64 = await openai.embeddings.create({ model, input: 'A river', encoding_format: 'base64' });
    const vector = usual.data[0].embedding;
    assert.ok(vector.length > 8);
    assert.ok(vector.every(Number.isFinite));
    assert.deepEqual(Array.from(Float32Array.from(float.data[0].embedding)), Array.from(vector));
    const bytes = Buffer.from(base64.data[0].embedding, 'base64');
    assert.equal(bytes.length, 4 * vector.length);
    assert.equal(bytes.readFloatLE(0), vector[0]);
    assert.equal(usual.model, model);
    assert.equal(usual.object, 'list');
  });

  it('keep the order of the inputs and count their tokens', async () => {
    const many = await openai.embeddings.create({ model, input: ['one', 'two', 'three words here'] });
    assert.deepEqual(many.data.map((d) => d.index), [0, 1, 2]);
    const single = await openai.embeddings.create({ model, input: 'two' });
    assert.deepEqual(many.data[1].embedding, single.data[0].embedding);
    assert.ok(many.usage.prompt_tokens > single.usage.prompt_tokens);
    assert.equal(many.usage.total_tokens, many.usage.prompt_tokens);
  });

  it('have the dimensions asked for', async () => {
    const answer = await openai.embeddings.create({ model, input: 'A river', dimensions: 32 });
    assert.equal(answer.data[0].embedding.length, 32);
  });

  it('refuse empty input, token arrays and unknown fields', async () => {
    for (const [field, params] of [['input', { input: '' }], ['input', { input: [] }], ['input', { input: [1, 2, 3] }], ['dimensions', { input: 'x', dimensions: 0 }]]) {
      const { body } = await refused(openai.embeddings.create({ model, ...params }), OpenAI.BadRequestError, 400);
      assert.ok(body.issues.some((i) => i.path[0] === field), JSON.stringify(body));
    }
    await refused(openai.embeddings.create({ model, input: 'x', made_up: 1 }), OpenAI.BadRequestError, 400);
  });

  it('refuse a chat model', async () => {
    const err = await openai.embeddings.create({ model: models.openai, input: 'x' }).catch((err) => err);
    assert.ok(err instanceof OpenAI.BadRequestError || err instanceof OpenAI.NotFoundError, `${err}`);
  });
});

describe('models', () => {
  it('are listed with type, price and capabilities', async () => {
    const found = {};
    for await (const record of openai.models.list()) {
      assert.equal(record.object, 'model');
      assert.equal(record.owned_by, 'svc');
      found[record.id] = record;
    }
    for (const id of [models.openai, models.anthropic, models.limited, models.plain]) {
      assert.ok(found[id], `${id} is not listed`);
      assert.equal(found[id].type, 'text');
      assert.equal(typeof found[id].model_spec.pricing.input.usd, 'number');
    }
    assert.equal(found[models.openai].model_spec.capabilities.supportsFunctionCalling, true);
    assert.equal(found[models.plain].model_spec.capabilities.supportsFunctionCalling, false);
    assert.equal(found[models.embedding], undefined, 'text models only, unless another type is asked for');
  });

  it('are listed by type', async () => {
    const embeddings = await openai.models.list({ query: { type: 'embedding' } });
    assert.deepEqual(embeddings.data.map((m) => m.id), [models.embedding]);
    const all = await openai.models.list({ query: { type: 'all' } });
    const { openai: a, anthropic, embedding, limited, plain, loose, native } = models;
    assert.deepEqual(all.data.map((m) => m.id).sort(), [a, anthropic, embedding, limited, plain, loose, native].sort());
    const { body } = await refused(openai.models.list({ query: { type: 'cake' } }), OpenAI.BadRequestError, 400);
    issue(body, 'type');
  });
});
