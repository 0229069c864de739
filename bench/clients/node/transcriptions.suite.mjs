// Transcriptions, as the openai package asks for them. Started by: go test -C tests -run TestTranscriptionsOfOpenAIsPackages ./audio
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { describe, it } from 'node:test';
import OpenAI from 'openai';

const openai = new OpenAI({ baseURL: process.env.FAREBOX_URL, apiKey: process.env.FAREBOX_KEY, maxRetries: 0, timeout: 60_000 });
const transcribe = (more) => openai.audio.transcriptions.create({ model: 'whisper-1', file: createReadStream(process.env.FAREBOX_SOUND), ...more });

describe('transcriptions', () => {
  it('come as json', async () => {
    const answer = await transcribe({ language: 'en', prompt: 'Numbers.', temperature: 0.2 });
    assert.match(answer.text, /^word0 word1 /);
    assert.deepEqual(answer.usage, { type: 'duration', seconds: 5 });
  });

  it('come as verbose_json', async () => {
    const answer = await transcribe({ response_format: 'verbose_json', timestamp_granularities: ['word', 'segment'] });
    assert.equal(answer.duration, 5);
    assert.equal(answer.language, 'english');
    assert.deepEqual(answer.words[1], { word: 'word1', start: 0.5, end: 0.9 });
    assert.equal(answer.segments[1].avg_logprob, -0.25);
    assert.equal(answer.segments.length, 2);
  });

  it('come as text and as subtitles', async () => {
    assert.match(await transcribe({ response_format: 'text' }), /^word0 word1 /);
    assert.match(await transcribe({ response_format: 'srt' }), /^1\n00:00:00,000 --> 00:00:03,900\nword0 /);
    assert.match(await transcribe({ response_format: 'vtt' }), /^WEBVTT\n\n00:00:00\.000 --> 00:00:03\.900\nword0 /);
  });

  it('come as a stream', async () => {
    let text = '';
    let done;
    for await (const event of await transcribe({ stream: true })) {
      if (event.type === 'transcript.text.delta') text += event.delta;
      else if (event.type === 'transcript.text.done') done = event.text;
    }
    assert.match(text, /^word0 word1 /);
    assert.equal(text, done);
  });

  it('are refused in the words of the service', async () => {
    const file = await OpenAI.toFile(Buffer.from('no sound'), 'speech.mp3');
    await assert.rejects(transcribe({ file }), (e) => e instanceof OpenAI.BadRequestError && e.code === 'INVALID_AUDIO_FORMAT');
  });
});
