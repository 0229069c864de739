// Sign-in headers, most of them changed somewhere, and what others say of each: siwe of the text, viem and ethers of
// the signatures of EVM, tweetnacl of Solana's, @x402/extensions of headers with fields. One JSON object a line.
// Started by: go test -run TestLongSignIn ./providers/wallet/signin
import { createSIWxMessage, parseSIWxHeader, verifySIWxSignature } from '@x402/extensions/sign-in-with-x';
import { base58 } from '@scure/base';
import { getAddress, verifyMessage as verifyByEthers } from 'ethers';
import { SiweMessage } from 'siwe';
import nacl from 'tweetnacl';
import { verifyMessage as verifyByViem } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

const count = Number(process.argv[2] ?? 1000);
const now = Date.parse('2026-11-20T12:00:00.000Z');
const domains = ['api.example.com', '127.0.0.1:8080'];
const origins = ['https://api.example.com', 'http://127.0.0.1:8080'];
const solana = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';
const maxAge = 300_000, skew = 30_000;

let state = Number(process.argv[3] ?? 1) >>> 0;
function random(n) {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];
const bytes = (n) => Uint8Array.from({ length: n }, () => random(256));
const hex = (b) => Buffer.from(b).toString('hex');

const wallets = Array.from({ length: 6 }, (_, i) => {
  if (i % 2) {
    const pair = nacl.sign.keyPair.fromSeed(bytes(32));
    return {
      kind: 'Solana', chain: solana, address: base58.encode(pair.publicKey),
      sign: async (text) => base58.encode(nacl.sign.detached(new TextEncoder().encode(text), pair.secretKey)),
    };
  }
  const account = privateKeyToAccount(`0x${hex(bytes(32))}`);
  return {
    kind: 'Ethereum', chain: 'eip155:8453', address: account.address,
    sign: (text) => account.signMessage({ message: text }),
  };
});

const iso = (ms) => new Date(ms).toISOString();
const odd = ['', ' ', '\n', '\r', '\t', '\0', '\x7f', 'é', '\u2028', '"', '%', '%2', '%zz', '<', '\\', '^', '`', '{', '|', '}',
  '[', ']', '#', '?', '/', '@', ':', '//', '\nURI: https://evil.example', '\n- a:b', '\nNonce: 0123456789', '0', 'a', 'Z', '-', '_',
  '~', '!', '$', '&', "'", '(', ')', '*', '+', ',', ';', '=', '.', '%20', '\n\n', 'ſ', '\ud800'];

function fieldsOf(w) {
  const issued = now - random(240_000);
  const f = {
    domain: 'api.example.com', address: w.address, uri: 'https://api.example.com/api/v1/x402/balance?a=1', version: '1',
    chainId: w.chain, type: w.kind === 'Solana' ? 'ed25519' : 'eip191', nonce: hex(bytes(8)), issuedAt: iso(issued),
  };
  if (random(3)) f.statement = 'Sign in to farebox: top up, ask & go.';
  if (random(2)) f.expirationTime = iso(now + 1000 + random(600_000));
  if (!random(3)) f.notBefore = iso(issued);
  if (!random(4)) f.requestId = 'req-%20:1';
  if (!random(4)) f.resources = ['https://x.example/a?b#c', 'ipfs://bafy/1', 'urn:x:y'].slice(0, random(4));
  if (!random(5)) [f.domain, f.uri] = ['127.0.0.1:8080', 'http://127.0.0.1:8080'];
  return f;
}

const values = {
  domain: ['evil.example', 'api.example.com.evil.example', 'API.example.com', 'api.example.com:443', 'x@api.example.com',
    'api.example.com:8443', 'localhost', '[::1]', 'api.example.com/'],
  uri: ['https://evil.example', 'https://api.example.com', 'https://api.example.com:443/x', 'https://api.example.com:8443',
    'https://u@api.example.com/', 'https://api.example.com@evil.example/', 'http://api.example.com', 'HTTPS://api.EXAMPLE.com',
    'https://api.example.com/a b', 'https://api.example.com/é', 'api.example.com', 'https:api.example.com', 'https:/api.example.com',
    'https://api.example.com/[', 'https://api.example.com?x=[1]', 'https://api.example.com#a#b', 'https://api.example.com\\@evil.example',
    'https://api.example.com/%41%zz', 'https://api.example.com./', 'https://api%2eexample.com', 'https://api.example.com:0443/', 'https://[::1]/'],
  version: ['2', '1.0', '', '01', 'one'],
  chainId: ['eip155:1', 'eip155:08453', 'eip155:', 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', 'solana', '8453', 'eip155:8453 ', 'eip155:84530', 'eip155:8453.0'],
  nonce: ['', '1234567', '12345678', 'with-dash-in-it', 'a'.repeat(128), 'ünïcödé12', '01234567 '],
  issuedAt: [iso(now - 300_000), iso(now - 300_001), iso(now + 30_000), iso(now + 30_001), iso(now - 3600_000), '2026-11-20T12:00:00Z',
    '2026-11-20T13:00:00+01:00', '2026-11-20T12:00:00', '2026-11-20', 'yesterday', '2026-11-20t12:00:00z', '2026-11-20 12:00:00Z',
    '2026-11-20T12:00:00,5Z', '2026-11-20T12:00:60Z', '2026-11-20T24:00:00Z', '2026-11-20T11:59:59.123456789Z', '2026-11-20T12:00:00+0000',
    '2026-11-20T12:00:00-00:00', '2026-11-20T1:00:00Z', '+002026-11-20T12:00:00Z'],
  expirationTime: [iso(now), iso(now - 1), iso(now + 1), iso(now + 1e12), '2026-02-30T00:00:00Z', '2026-11-31T00:00:00Z', 'never', '9999-12-31T23:59:59Z', '2027-02-29T00:00:00Z'],
  notBefore: [iso(now), iso(now + 60_000), 'now', '0001-01-01T00:00:00Z', '1970-01-01T00:00:00Z'],
  statement: ['', 'x', 'URI: https://evil.example', 'Say "hi"', 'Grüezi', 'two\nlines', ' ', 'a\n\nURI: https://evil.example', '100%', "it's [fine]; go=1?"],
  requestId: ['', 'a b', 'a/b', 'ok', 'a\nResources:'],
  resources: [[], ['a b'], ['https://x.example'], ['x'], ['https://[::1]:8/'], ['https://[v1.x]/'], ['https://x.example:99999/'], ['//x.example'], ['a:'],
    ['a:/b'], ['a://'], ['a:///b'], ['a:b\n- c:d'], ['https://u:p@x.example/'], ['https://a@b@x.example/'], ['mailto:a@b.example'], ['https://[::1%25eth0]/'], ['https://[::1'], ['https://x[1]/']],
};

function changeField(f) {
  const name = pick(Object.keys(values));
  if (!random(6)) delete f[name];
  else if (!random(3) && typeof f[name] === 'string') f[name] = changeText(f[name]);
  else f[name] = pick(values[name]);
}

function changeText(s) {
  const at = random(s.length + 1), to = Math.min(s.length, at + random(4));
  switch (random(5)) {
    case 0: return s.slice(0, at) + s.slice(to);
    case 1: return s.slice(0, at) + pick(odd) + s.slice(at);
    case 2: return s.slice(0, at) + pick(odd) + s.slice(at + 1);
    case 3: return s.slice(0, at) + s.slice(at, to) + s.slice(at);
    default: return s.slice(0, at) + s.slice(at, at + 1).toUpperCase() + s.slice(at + 1);
  }
}

// The text of the fields, which may be none that a package would make.
function textOf(w, f) {
  const lines = [`${f.domain} wants you to sign in with your ${w.kind} account:`, f.address, ''];
  if (f.statement !== undefined) lines.push(f.statement, '');
  else if (random(2)) lines.push('');
  const chain = String(f.chainId);
  lines.push(`URI: ${f.uri}`, `Version: ${f.version}`,
    `Chain ID: ${w.kind === 'Solana' && random(2) ? chain : chain.slice(chain.indexOf(':') + 1)}`, `Nonce: ${f.nonce}`, `Issued At: ${f.issuedAt}`);
  if (f.expirationTime !== undefined) lines.push(`Expiration Time: ${f.expirationTime}`);
  if (f.notBefore !== undefined) lines.push(`Not Before: ${f.notBefore}`);
  if (f.requestId !== undefined) lines.push(`Request ID: ${f.requestId}`);
  if (f.resources) lines.push('Resources:', ...f.resources.map((r) => `- ${r}`));
  return (random(20) ? '' : 'https://') + lines.join('\n');
}

function changeSignature(w, s) {
  if (w.kind === 'Solana') {
    const raw = base58.decode(s);
    switch (random(5)) {
      case 0: return Buffer.from(raw).toString('base64');
      case 1: return Buffer.from(raw).toString('base64url');
      case 2: raw[random(raw.length)] ^= 1 << random(8); return base58.encode(raw);
      case 3: return base58.encode(raw.slice(0, 63));
      default: return changeText(s);
    }
  }
  const raw = Buffer.from(s.slice(2), 'hex');
  switch (random(9)) {
    case 0: raw[64] -= 27; break;
    case 1: raw[64] ^= 7; break; // 27 and 28 differ in three bits
    case 2: raw[64] = random(256); break;
    case 3: { // the other s
      const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
      Buffer.from((order - BigInt('0x' + raw.subarray(32, 64).toString('hex'))).toString(16).padStart(64, '0'), 'hex').copy(raw, 32);
      raw[64] = 55 - raw[64];
      break;
    }
    case 4: raw[random(64)] ^= 1 << random(8); break;
    case 5: return '0x' + raw.toString('hex').toUpperCase();
    case 6: return s.slice(2);
    case 7: return s + '00';
    default: return changeText(s);
  }
  return '0x' + raw.toString('hex');
}

// One header, changed in none, one or two places, before or after it was signed.
async function make() {
  const w = pick(wallets), f = fieldsOf(w), change = random(12);
  const verbatim = random(2) === 0;
  if (change < 4) changeField(f);
  if (change === 0) changeField(f);
  let text;
  if (verbatim) text = textOf(w, f);
  else try { text = createSIWxMessage(f, f.address); } catch { text = textOf(w, f); }
  if (verbatim && change === 4) text = changeText(text);
  let signature = await (change === 5 ? pick(wallets) : w).sign(text);
  if (change === 6) signature = changeSignature(w, signature);
  let said = { ...f, signature };
  if (verbatim) {
    said = { address: f.address, message: text, signature, chainId: f.chainId };
    if (w.kind === 'Solana') said.type = 'ed25519';
    else if (random(2)) said.chainId = pick([8453, '8453', 'eip155:8453', f.chainId]);
    if (!random(3)) said.timestamp = Date.parse(f.issuedAt) + pick([0, 0, 30_000, -30_000, 30_001, -30_001]) || 1;
  }
  if (change === 7) {
    if (verbatim && random(2)) said.message = changeText(said.message);
    else changeField(said);
  }
  if (change === 8) said.address = pick([pick(wallets).address, said.address.toLowerCase(), '0x' + said.address.slice(2).toUpperCase(), changeText(said.address)]);
  let json = JSON.stringify(said);
  if (change === 9) json = changeText(json);
  let header = Buffer.from(json).toString(pick(['base64', 'base64', 'base64url']));
  if (!random(6)) header = header.replace(/=+$/, '');
  if (change === 10) header = changeText(header).replace(/[^\x21-\x7e]/g, '!');
  return header;
}

// checksummed gives an address of digits of one case its checksum, as siwe wants it.
const checksummed = (a) => (/^0x([0-9a-f]{40}|[0-9A-F]{40})$/.test(a) ? getAddress(a.toLowerCase()) : a);

const standIn = getAddress('0x00000000000000000000000000000000000000aa');

function solanaSigned(text, said) {
  const raw = /^[1-9A-HJ-NP-Za-km-z]{87,88}$/.test(said.signature) ? base58.decode(said.signature) : Buffer.from(said.signature, 'base64');
  return raw.length === 64 && nacl.sign.detached.verify(new TextEncoder().encode(text), raw, base58.decode(said.address));
}

// signedText is the text of a header with fields, as @x402/extensions makes it and finds it signed. It knows neither
// signatures of Solana in base64 nor texts with the chain's whole name.
async function signedText(said, chain, solanaWallet) {
  const given = Object.fromEntries(Object.entries(said).filter(([, v]) => v !== null));
  const known = parseSIWxHeader(Buffer.from(JSON.stringify({ type: solanaWallet ? 'ed25519' : 'eip191', ...given, chainId: chain })).toString('base64'));
  known.address = checksummed(known.address);
  const text = createSIWxMessage(known, known.address);
  if ((await verifySIWxSignature(known)).isValid) return text;
  if (!solanaWallet) throw new Error('extensions');
  return solanaSigned(text, said) ? text : text.replace('\nChain ID: ', '\nChain ID: solana:');
}

// oddities are what farebox alone refuses, and why.
function oddities(json, said, m) {
  const list = [];
  for (const name of ['address', 'message', 'signature', 'timestamp', 'chainId', 'type', 'signatureScheme', 'resources', ...Object.keys(values)]) {
    const twin = (key) => key !== name && key.toLowerCase() === name.toLowerCase();
    if (Object.keys(said).some(twin) || json.split(`"${name}":`).length > 2) list.push('a member twice, or in other letters');
  }
  const fields = said.message === undefined ? Object.values(said).flat().filter((v) => typeof v === 'string') : [];
  if (fields.some((v) => /[^\x20-\x7e]/.test(v))) list.push('a field of several lines, or beyond ASCII');
  const uri = m.uri.replace(/^https?:\/\/[^/?#]*/i, (o) => o.toLowerCase()).replace(/^(https:\/\/[^/?#]*):443(?=[/?#]|$)/, '$1');
  if (!origins.some((o) => uri.startsWith(o) && /^([/?#]|$)/.test(uri.slice(o.length)))) list.push('a URI whose origin only browsers find');
  if (m.resources?.some((r) => /\[v/i.test(r))) list.push('a resource at an address of the future');
  return list;
}

// judge says whether the others take a header; it throws where they refuse.
async function judge(header) {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(header)) throw new Error('base64');
  const json = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(header, 'base64'));
  const said = JSON.parse(json);
  const solanaWallet = String(said.chainId).startsWith('solana:');
  const chain = /^\d+$/.test(String(said.chainId)) ? `eip155:${said.chainId}` : said.chainId;
  if (chain !== 'eip155:8453' && chain !== solana) throw new Error('chain');
  const text = said.message ?? await signedText(said, chain, solanaWallet);
  const lines = text.split('\n');
  const signer = lines[1];
  const at = lines.findIndex((l, i) => l.startsWith('Chain ID: ') && lines[i - 1].startsWith('Version: '));
  if (solanaWallet) {
    if (![`Chain ID: ${solana}`, `Chain ID: ${solana.slice(7)}`].includes(lines[at])) throw new Error('chain');
    if (!lines[0].endsWith(' Solana account:')) throw new Error('account');
    lines[0] = lines[0].replace(/ Solana account:$/, ' Ethereum account:');
    lines[1] = standIn;
    lines[at] = 'Chain ID: 8453';
    if (signer !== said.address) throw new Error('address');
    if (!solanaSigned(text, said)) throw new Error('signature');
  } else {
    if (checksummed(signer) !== checksummed(said.address)) throw new Error('address');
    if (!(await verifyByViem({ address: checksummed(signer), message: text, signature: said.signature }))) throw new Error('viem');
    if (verifyByEthers(text, said.signature) !== checksummed(signer)) throw new Error('ethers');
    lines[1] = checksummed(signer);
  }
  // Without a statement some write one empty line, siwe knows two.
  if (lines[2] === '' && lines[3]?.startsWith('URI: ') && lines[4]?.startsWith('Version: ')) lines.splice(2, 0, '');
  const m = new SiweMessage(lines.join('\n'));
  if (m.chainId !== 8453 || m.version !== '1') throw new Error('chain or version');
  if (m.scheme && !origins.includes(`${m.scheme}://${m.domain}`)) throw new Error('scheme');
  if (!domains.includes(m.domain) || !origins.includes(new URL(m.uri).origin)) throw new Error('domain');
  const issued = Date.parse(m.issuedAt), beyond = (t) => t !== undefined && Number.isNaN(Date.parse(t));
  if (Number.isNaN(issued) || beyond(m.expirationTime) || beyond(m.notBefore)) throw new Error('time');
  if (now - issued > maxAge || issued - now > skew) throw new Error('age');
  if (m.expirationTime && Date.parse(m.expirationTime) <= now) throw new Error('expired');
  if (m.notBefore && Date.parse(m.notBefore) > now + skew) throw new Error('not before');
  if (said.timestamp !== undefined && !(Math.abs(said.timestamp - issued) <= skew)) throw new Error('timestamp');
  return { signer: solanaWallet ? signer : signer.toLowerCase(), nonce: m.nonce, odd: oddities(json, said, m).join(', ') };
}

console.error = () => {}; // siwe reports addresses without a checksum
console.warn = () => {};
for (let i = 0; i < count; i++) {
  const header = await make();
  const line = { header };
  try {
    Object.assign(line, await judge(header));
  } catch (e) {
    line.refused = String(e?.message ?? e?.error?.type ?? e).slice(0, 60);
  }
  process.stdout.write(JSON.stringify(line) + '\n');
}
