// What the suites share: where things are, and calls. They are started by:
// go test -C tests -run TestLongWalletPackages ./wallet
import assert from 'node:assert/strict';

function need(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set; these tests are started by: go test -C tests -run TestLongWalletPackages ./wallet`);
  }
  return value;
}

export const url = need('FAREBOX_URL');
export const house = JSON.parse(need('FAREBOX_HOUSE'));
export const key = need('FAREBOX_KEY'); // of any account: the specification asks for one
export const origin = new URL(url).origin;
export const host = new URL(url).host;
export const bearer = { authorization: `Bearer ${key}` };
// The clients' own limit is 1 USD a payment, the least top-up is 5.
export const spendControls = { maxAmountPerPayment: '$10' };

export async function post(to, body) {
  const answer = await fetch(to, { method: 'POST', body: JSON.stringify(body) });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

export const fund = (address, usd = 100) => post(house.url + '/fund', { address, usd });

export async function units(address) {
  const { units } = await post(house.url + '/balance', { address });
  return Number(units);
}

// chat asks for an answer of a known price.
export function chat(send, headers = {}) {
  return send(url + '/chat/completions', {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'sim-chat', messages: [{ role: 'user', content: '[[sim tokens=8]] Hello' }] }),
  });
}

export async function json(answer, status = 200) {
  const text = await answer.text();
  assert.equal(answer.status, status, text);
  return JSON.parse(text);
}

export const base64 = (value) => Buffer.from(JSON.stringify(value)).toString('base64');

// spent asserts that a paid chat left what its header says, and less than before.
export function spent(answer, before) {
  const left = Number(answer.headers.get('x-balance-remaining'));
  assert.ok(left > 0 && left < before, `X-Balance-Remaining is ${answer.headers.get('x-balance-remaining')}`);
  return left;
}
