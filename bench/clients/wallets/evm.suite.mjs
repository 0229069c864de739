// Wallets of an EVM, as the packages of npm hold them: top-ups, sign-ins and paid chats
// before a real node and the public facilitator.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { decodePaymentResponseHeader, wrapFetchWithPayment, wrapFetchWithPaymentFromConfig, x402Client } from '@x402/fetch';
import { ExactEvmScheme } from '@x402/evm/exact/client';
import { createSIWxClientExtension } from '@x402/extensions/sign-in-with-x';
import { Wallet } from 'ethers';
import { SiweMessage } from 'siwe';
import { checksumAddress, concat } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { createSiweMessage, generateSiweNonce } from 'viem/siwe';
import { base64, bearer, chat, fund, host, house, json, origin, spendControls, spent, units, url } from './gateway.mjs';

// topUp pays what the gateway asks for, and keeps the header that was sent.
async function topUp(signer, sent = {}) {
  const keep = (input, init) => {
    const request = new Request(input, init);
    sent.header = request.headers.get('payment-signature') ?? sent.header;
    return fetch(request);
  };
  const pay = wrapFetchWithPaymentFromConfig(keep, { schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(signer) }], spendControls });
  return pay(url + '/x402/top-up', { method: 'POST', headers: bearer });
}

// signIn is the header of a text that anybody signed.
const signIn = (address, message, signature) => ({ 'SIGN-IN-WITH-X': base64({ address, message, signature, chainId: 'eip155:8453' }) });

const viemMessage = (address) =>
  createSiweMessage({ address, chainId: 8453, domain: host, nonce: generateSiweNonce(), uri: origin, version: '1', issuedAt: new Date() });

describe('a wallet of viem', () => {
  const account = privateKeyToAccount(generatePrivateKey());
  const sent = {};
  let left;
  before(() => fund(account.address));

  it('tops up by @x402/fetch', async () => {
    const answer = await topUp(account, sent);
    const { success, data } = await json(answer);
    assert.equal(success, true);
    assert.deepEqual([data.walletAddress, data.amountCredited, data.newBalance], [account.address.toLowerCase(), 5, 5]);
    assert.match(data.paymentId, /^pay_/);
    const settled = decodePaymentResponseHeader(answer.headers.get('payment-response'));
    assert.equal(settled.success, true);
    assert.equal(settled.network, 'eip155:8453');
    assert.match(settled.transaction, /^0x[0-9a-f]{64}$/);
    assert.equal(settled.payer.toLowerCase(), account.address.toLowerCase());
    assert.equal(await units(account.address), 95_000_000);
  });

  it('gets the first answer for the payment sent again', async () => {
    const again = await fetch(url + '/x402/top-up', { method: 'POST', headers: { ...bearer, 'PAYMENT-SIGNATURE': sent.header } });
    const { data } = await json(again);
    assert.deepEqual([data.amountCredited, data.newBalance], [5, 5]);
    assert.equal(await units(account.address), 95_000_000);
  });

  it('pays a chat by @x402/extensions alone', async () => {
    const client = new x402Client().register('eip155:*', new ExactEvmScheme(account));
    client.registerExtension(createSIWxClientExtension({ signers: [account] }));
    const answer = await chat(wrapFetchWithPayment(fetch, client));
    const { choices } = await json(answer);
    assert.equal(choices[0].message.role, 'assistant');
    left = spent(answer, 5);
  });

  it('sees its balance with a message of viem', async () => {
    const message = viemMessage(account.address);
    const headers = signIn(account.address, message, await account.signMessage({ message }));
    const { data } = await json(await fetch(`${url}/x402/balance/${account.address}`, { headers }));
    assert.equal(data.balanceUsd, left);
    assert.equal(data.canConsume, true);
    await json(await fetch(`${url}/x402/balance/${account.address}`, { headers }), 401); // a nonce counts once
  });

  it('lists what it paid and spent', async () => {
    const message = viemMessage(account.address);
    const headers = signIn(account.address, message, await account.signMessage({ message }));
    const { data } = await json(await fetch(`${url}/x402/transactions/${account.address}`, { headers }));
    assert.deepEqual([...new Set(data.transactions.map((t) => t.type))], ['CHARGE', 'TOP_UP']);
    const sum = data.transactions.reduce((all, t) => all + Math.round(t.amount * 1e9), 0);
    assert.equal(sum, Math.round(left * 1e9));
  });

  it('is asked to pay when it has no funds, and nothing is credited', async () => {
    const poor = privateKeyToAccount(generatePrivateKey());
    const body = await json(await topUp(poor), 402);
    assert.equal(body.error, 'PAYMENT_VERIFICATION_FAILED');
    assert.ok(body.accepts.length > 0);
  });
});

describe('a wallet of ethers', () => {
  const wallet = Wallet.createRandom();
  const signer = {
    address: wallet.address,
    signTypedData: ({ domain, types, primaryType, message }) => wallet.signTypedData(domain, { [primaryType]: types[primaryType] }, message),
  };
  before(() => fund(wallet.address));

  it('tops up', async () => {
    const { data } = await json(await topUp(signer));
    assert.equal(data.newBalance, 5);
  });

  for (const statement of [undefined, 'I take the blue pill']) {
    it(`pays a chat with a message of siwe ${statement ? 'with' : 'without'} a statement`, async () => {
      const message = new SiweMessage({
        domain: host, address: wallet.address, statement, uri: url + '/chat/completions', version: '1', chainId: 8453,
        expirationTime: new Date(Date.now() + 300_000).toISOString(),
      }).prepareMessage();
      const answer = await chat(fetch, signIn(wallet.address, message, await wallet.signMessage(message)));
      await json(answer);
      spent(answer, 5);
    });
  }

  it('is not taken for another', async () => {
    const stranger = Wallet.createRandom();
    const message = viemMessage(wallet.address);
    await json(await chat(fetch, signIn(wallet.address, message, await stranger.signMessage(message))), 401);
  });
});

describe('a contract wallet (EIP-1271)', () => {
  const owner = privateKeyToAccount(generatePrivateKey());
  const mark = (signature) => concat(['0x77a11e70', signature]);
  let signer;
  before(async () => {
    const answer = await fetch(house.url + '/contract', { method: 'POST', body: JSON.stringify({ owner: owner.address }) });
    const { address } = await json(answer);
    signer = { address, signTypedData: async (message) => mark(await owner.signTypedData(message)) };
  });

  it('tops up', async () => {
    const { data } = await json(await topUp(signer));
    assert.deepEqual([data.walletAddress, data.newBalance], [signer.address.toLowerCase(), 5]);
  });

  it('signs in and pays a chat', async () => {
    const address = checksumAddress(signer.address);
    const message = viemMessage(address);
    const answer = await chat(fetch, signIn(address, message, mark(await owner.signMessage({ message }))));
    await json(answer);
    spent(answer, 5);
  });

  it("is not opened by a stranger's key", async () => {
    const stranger = privateKeyToAccount(generatePrivateKey());
    const address = checksumAddress(signer.address);
    const message = viemMessage(address);
    await json(await chat(fetch, signIn(address, message, mark(await stranger.signMessage({ message })))), 401);
    const body = await json(await topUp({ address, signTypedData: async (m) => mark(await stranger.signTypedData(m)) }), 402);
    assert.equal(body.error, 'PAYMENT_VERIFICATION_FAILED');
  });
});
