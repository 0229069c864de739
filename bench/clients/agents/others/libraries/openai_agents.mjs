import { appendFileSync } from 'node:fs';
import { Runner, tool } from '@openai/agents';
import { z } from 'zod';

const write = tool({
  name: 'write', description: 'Appends a text to made.txt.', parameters: z.object({ text: z.string() }),
  execute: async ({ text }) => { appendFileSync('made.txt', text); return 'written'; },
});
agent.tools.push(write);
const result = await new Runner().run(agent, process.argv[2], { stream: true });
for await (const part of result.toTextStream()) process.stdout.write(part);
await result.completed;
