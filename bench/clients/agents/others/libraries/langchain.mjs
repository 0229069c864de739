import { appendFileSync } from 'node:fs';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';

const parameters = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'], additionalProperties: false };
const write = { type: 'function', function: { name: 'write', description: 'Appends a text to made.txt.', parameters } };
const messages = [new HumanMessage(process.argv[2])];
for (;;) {
  let answer;
  for await (const part of await model.bindTools([write]).stream(messages)) answer = answer ? answer.concat(part) : part;
  messages.push(answer);
  if (!answer.tool_calls.length) break;
  for (const { id, args } of answer.tool_calls) {
    appendFileSync('made.txt', args.text);
    messages.push(new ToolMessage({ content: 'written', tool_call_id: id }));
  }
}
console.log(messages.at(-1).content);
