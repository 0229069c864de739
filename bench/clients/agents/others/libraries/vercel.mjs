import { appendFileSync } from 'node:fs';
import { jsonSchema, stepCountIs, streamText, tool } from 'ai';

const write = tool({
  description: 'Appends a text to made.txt.',
  inputSchema: jsonSchema({ type: 'object', properties: { text: { type: 'string' } }, required: ['text'], additionalProperties: false }),
  execute: async ({ text }) => appendFileSync('made.txt', text),
});
const result = streamText({
  model, prompt: process.argv[2], tools: { write }, stopWhen: stepCountIs(5), maxRetries: 0,
  onError: ({ error }) => { throw error; },
});
for await (const part of result.textStream) process.stdout.write(part);
