// Calls what ../inventory.json names with the openai package: once with defaults, once with each
// option. The options are those of the package's own types, so that a new version adds rows. It
// prints a row of JSON for each call; tests/clients/sdk_test.go makes a table of them.
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateSync, crc32 } from 'node:zlib';
import OpenAI, { toFile } from 'openai';

const here = dirname(fileURLToPath(import.meta.url));
const what = JSON.parse(readFileSync(join(here, '..', 'inventory.json'), 'utf8'));
let leftOut = '';
const client = new OpenAI({
  baseURL: process.env.FAREBOX_URL, apiKey: process.env.FAREBOX_KEY, maxRetries: 0, timeout: 30000,
  fetch: async (...request) => {
    const answer = await fetch(...request);
    leftOut = answer.headers.get('x-svc-left-out') ?? '';
    return answer;
  },
});

// read gives all types of a folder, without those of the package's other interfaces.
function read(dir) {
  return readdirSync(dir, { withFileTypes: true }).filter((e) => !['beta', 'admin'].includes(e.name)).map((e) => e.isDirectory()
    ? read(join(dir, e.name)) : e.name.endsWith('.d.ts') ? readFileSync(join(dir, e.name), 'utf8') : '').join('\n');
}
const declarations = ['resources', 'core'].map((dir) => read(join(here, 'node_modules', 'openai', dir))).join('\n');

// optionsOf reads the members of an interface, and a short value of each one's type.
function optionsOf(name) {
  const found = new RegExp(`^export interface ${name}(?:<.*?>)?(?: extends ([\\w.<>, ]+))? \\{\\n([\\s\\S]*?)^\\}`, 'm').exec(declarations);
  if (!found) throw new Error(`the package has no ${name}`);
  const options = {};
  for (const [, option, type] of found[2].matchAll(/^ {4}(\w+)\??: ([^;]*)/gm)) {
    const literal = /'([^']*)'/.exec(type);
    options[option] = literal ? literal[1] : /\bnumber\b/.test(type) ? 1 : /\bboolean\b/.test(type) ? true : /Array|\[\]/.test(type) ? ['x'] : /^string/.test(type) ? 'x' : {};
  }
  for (const base of (found[1] ?? '').split(',').map((b) => b.trim()).filter((b) => /Params/.test(b))) Object.assign(options, optionsOf(base.replace(/^.*\./, '')));
  return options;
}

function png() {
  const chunk = (kind, data) => {
    const b = Buffer.alloc(12 + data.length);
    b.writeUInt32BE(data.length);
    b.write(kind, 4);
    data.copy(b, 8);
    b.writeUInt32BE(crc32(b.subarray(4, 8 + data.length)), 8 + data.length);
    return b;
  };
  const head = Buffer.from([0, 0, 1, 0, 0, 0, 1, 0, 8, 2, 0, 0, 0]);
  const row = Buffer.concat([Buffer.from([0]), Buffer.alloc(768, 128)]);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head),
    chunk('IDAT', deflateSync(Buffer.concat(Array(256).fill(row)))), chunk('IEND', Buffer.alloc(0))]);
}

function wav() {
  const b = Buffer.alloc(44 + 32000);
  b.write('RIFF'); b.writeUInt32LE(36 + 32000, 4); b.write('WAVEfmt ', 8); b.writeUInt32LE(16, 16);
  b.writeUInt16LE(1, 20); b.writeUInt16LE(1, 22); b.writeUInt32LE(16000, 24); b.writeUInt32LE(32000, 28);
  b.writeUInt16LE(2, 32); b.writeUInt16LE(16, 34); b.write('data', 36); b.writeUInt32LE(32000, 40);
  return b;
}

const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const placeholders = {
  $SCHEMA: () => ({ type: 'json_schema', json_schema: { name: 'place', strict: true, schema } }),
  $PICTURE: () => toFile(png(), 'a.png', { type: 'image/png' }),
  $SOUND: () => toFile(wav(), 'a.wav', { type: 'audio/wav' }),
  $KEPT: async () => (await client.responses.create({ model: 'sim-chat-large', input: 'Keep this' })).id,
};

async function filled(x, mark) {
  if (typeof x === 'string') return placeholders[x] ? placeholders[x]() : x.replace('{}', mark);
  if (Array.isArray(x)) return Promise.all(x.map((v) => filled(v, mark)));
  if (x === null || typeof x !== 'object') return x;
  return Object.fromEntries(await Promise.all(Object.entries(x).map(async ([k, v]) => [k, await filled(v, mark)])));
}

function value(method, option, usual) {
  const parts = method.split('.');
  for (let end = parts.length; end > 0; end--) {
    const name = `${parts.slice(0, end).join('.')} ${option}`;
    if (name in what.values) return what.values[name];
  }
  return option in what.values ? what.values[option] : usual;
}

async function sent(mark, option) {
  for (let i = 0; i < 3; i++) { // a request is listed when its answer has ended
    const requests = await (await fetch(process.env.FAREBOX_SIM + '/_sim/last')).json();
    const bodies = requests.map((r) => Buffer.from(r.body ?? '', 'base64').toString('latin1'));
    const body = bodies.findLast((b) => b.includes(mark)) ?? bodies.at(-1) ?? '';
    if (body.includes(`"${option}"`) || body.includes(`"${option}[]"`)) return true;
    await new Promise((done) => setTimeout(done, 100));
  }
  return false;
}

async function call(method, option, path, needs, mark) {
  const names = method.split('.').map((n) => n.replace(/_(\w)/g, (_, c) => c.toUpperCase()));
  const last = names.pop();
  let resource = client;
  for (const name of names) resource = resource?.[name];
  if (typeof resource?.[last] !== 'function') return 'the package has no such method';
  try {
    const inPath = Object.values(await filled(path, mark));
    const body = await filled(needs, mark);
    leftOut = '';
    const answer = await resource[last](...inPath, ...(Object.keys(body).length ? [body] : []));
    if (typeof answer?.[Symbol.asyncIterator] === 'function') for await (const _ of answer);
    else if (typeof answer?.arrayBuffer === 'function') await answer.arrayBuffer();
  } catch (e) {
    if (!(e instanceof OpenAI.APIError) || !e.status) return `the package: ${e.constructor.name}: ${e.message}`.slice(0, 200);
    return `${e.status}: ${typeof e.error === 'string' ? e.error : e.error?.message ?? e.message}`;
  }
  if (leftOut) return `served without ${leftOut}`;
  const here = Object.entries(what.carried_out).some(([prefix, list]) => method.startsWith(`${prefix}.`) && list.includes(option));
  return !option || here || await sent(mark, option) ? 'served' : 'served, not sent on';
}

let count = 0;
async function row(method, option, path, needs) {
  const result = await call(method, option, path, needs, `mark-${String(++count).padStart(4, '0')}`);
  console.log(JSON.stringify({ method, option, result }));
  return result;
}

for (const [method, { path = {}, needs = {}, type }] of Object.entries(what.methods)) {
  const result = await row(method, '', path, needs);
  if (!result.startsWith('served') || !type) continue;
  const options = optionsOf(type);
  for (const option of Object.keys(options)) {
    if (option in needs || option in path || what.left_out.includes(option) || what.left_out.includes(`${option} of ${method}`)) continue;
    const beside = [option, ...(what.with[option] ?? [])].filter((n) => n in options);
    await row(method, option, path, { ...needs, ...Object.fromEntries(beside.map((n) => [n, value(method, n, options[n])])) });
  }
}
