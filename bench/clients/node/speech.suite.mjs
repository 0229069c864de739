// Speech, as the openai package asks for it. Started by: go test -C tests -run TestSpeechOfOpenAIsPackages ./audio
import assert from 'node:assert/strict';
import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, it } from 'node:test';
import OpenAI from 'openai';

const openai = new OpenAI({ baseURL: process.env.FAREBOX_URL, apiKey: process.env.FAREBOX_KEY, maxRetries: 0, timeout: 60_000 });
const input = 'Forty characters are two seconds of sound'.slice(0, 40);
const file = (name) => join(process.env.FAREBOX_DIR, name);

describe('speech', () => {
  it('comes whole', async () => {
    const answer = await openai.audio.speech.create({ model: 'tts-1', voice: 'alloy', input, response_format: 'flac' });
    assert.equal(answer.headers.get('content-type'), 'audio/flac');
    writeFileSync(file('node.flac'), Buffer.from(await answer.arrayBuffer()));
  });

  it('is streamed to a file', async () => {
    const answer = await openai.audio.speech.create({ model: 'tts-1', voice: 'alloy', input, instructions: 'calmly', speed: 1, stream_format: 'audio' });
    await pipeline(Readable.fromWeb(answer.body), createWriteStream(file('node.mp3')));
  });

  it('is refused in the words of the service', async () => {
    await assert.rejects(openai.audio.speech.create({ model: 'tts-1', voice: 'nobody', input }), (e) => e instanceof OpenAI.BadRequestError && /has no voice nobody/.test(e.message));
  });
});
