// An encrypted chat with viem's points and WebCrypto, checked from attestation to signature:
//   node sealed.mjs URL KEY MODEL TEXT
// prints one line of JSON. Started by: go test -C tests -run TestLongAClientOfOurs ./tee
import assert from 'node:assert/strict';
import { createHash, randomBytes, webcrypto } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1';
import { bytesToHex, hexToBytes, keccak256, recoverMessageAddress } from 'viem';

const [url, key, model, text] = process.argv.slice(2);
const hex = (bytes) => bytesToHex(bytes).slice(2);
const bytes = (text) => hexToBytes('0x' + text);

async function box(own, other) {
  const x = secp256k1.getSharedSecret(own, other, true).slice(1);
  const ikm = await webcrypto.subtle.importKey('raw', x, 'HKDF', false, ['deriveKey']);
  const derivation = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: new TextEncoder().encode('ecdsa_encryption') };
  return webcrypto.subtle.deriveKey(derivation, ikm, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
}

async function seal(to, plain) {
  const own = secp256k1.utils.randomPrivateKey();
  const iv = new Uint8Array(randomBytes(12));
  const sealed = await webcrypto.subtle.encrypt({ name: 'AES-GCM', iv }, await box(own, to), new TextEncoder().encode(plain));
  return hex(secp256k1.getPublicKey(own, false)) + hex(iv) + hex(new Uint8Array(sealed));
}

async function open(own, blob) {
  const raw = bytes(blob);
  const opened = await webcrypto.subtle.decrypt({ name: 'AES-GCM', iv: raw.slice(65, 77) }, await box(own, raw.slice(0, 65)), raw.slice(77));
  return new TextDecoder().decode(opened);
}

// What a client must find itself, whatever the gateway claims.
const nonce = hex(new Uint8Array(randomBytes(32)));
const report = await (await fetch(`${url}/tee/attestation?model=${model}&nonce=${nonce}`)).json();
const quote = bytes(report.intel_quote);
const data = hex(quote.slice(568, 632));
const address = keccak256('0x' + report.signing_key.slice(2)).slice(-40);
assert.equal(report.verified, true);
assert.equal(data, address + '0'.repeat(24) + nonce);
assert.equal(quote[168] & 1, 0, 'the domain can be debugged');

const own = secp256k1.utils.randomPrivateKey();
const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: await seal(bytes(report.signing_key), text) }] });
const answer = await fetch(`${url}/chat/completions`, {
  method: 'POST', body,
  headers: {
    authorization: `Bearer ${key}`, 'content-type': 'application/json', 'X-Svc-TEE-Signing-Algo': 'ecdsa',
    'X-Svc-TEE-Client-Pub-Key': hex(secp256k1.getPublicKey(own, false)), 'X-Svc-TEE-Model-Pub-Key': report.signing_key,
  },
});
const stream = Buffer.from(await answer.arrayBuffer());
assert.equal(answer.status, 200, stream.toString());
let said = '';
let id = '';
for (const line of stream.toString().split('\n')) {
  if (!line.startsWith('data: {')) continue;
  const event = JSON.parse(line.slice(6));
  id = event.id;
  const delta = event.choices[0]?.delta?.content;
  if (delta) said += await open(own, delta);
}

// The signature is over the bytes that the enclave was sent and that came here.
const signed = await (await fetch(`${url}/tee/signature?model=${model}&request_id=${id}`, { headers: { authorization: `Bearer ${key}` } })).json();
const [request, response] = signed.text.split(':').slice(-2);
assert.equal(response, createHash('sha256').update(stream).digest('hex'));
assert.equal(request, answer.headers.get('x-svc-tee-request-hash'));
const signer = await recoverMessageAddress({ message: signed.text, signature: signed.signature });
assert.equal(signer.toLowerCase(), '0x' + address);
console.log(JSON.stringify({ said, id }));
