// Wallets of Solana, as the packages of npm hold them, before litesvm and the public
// facilitator.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { createKeyPairSignerFromPrivateKeyBytes, createSignableMessage, getBase58Decoder } from '@solana/kit';
import { createSIWxClientExtension, createSIWxPayload, encodeSIWxHeader } from '@x402/extensions/sign-in-with-x';
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from '@x402/fetch';
import { ExactSvmScheme } from '@x402/svm/exact/client';
import { base64, bearer, chat, fund, host, house, json, origin, spendControls, spent, units, url } from './gateway.mjs';

const network = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';

describe('a wallet of @solana/kit', () => {
  let signer, client, pay, left, sent;
  before(async () => {
    signer = await createKeyPairSignerFromPrivateKeyBytes(crypto.getRandomValues(new Uint8Array(32)));
    await fund(signer.address);
    client = x402Client.fromConfig({ schemes: [{ network: 'solana:*', client: new ExactSvmScheme(signer, { rpcUrl: house.rpc }) }], spendControls });
    client.registerExtension(createSIWxClientExtension({ signers: [signer] }));
    pay = wrapFetchWithPayment((input, init) => {
      const request = new Request(input, init);
      sent = request.headers.get('payment-signature') ?? sent;
      return fetch(request);
    }, client);
  });

  it('tops up by @x402/fetch and @x402/svm', async () => {
    const answer = await pay(url + '/x402/top-up', { method: 'POST', headers: bearer });
    const { data } = await json(answer);
    assert.deepEqual([data.walletAddress, data.amountCredited, data.newBalance], [signer.address, 5, 5]);
    const settled = decodePaymentResponseHeader(answer.headers.get('payment-response'));
    assert.deepEqual([settled.success, settled.network, settled.payer], [true, network, signer.address]);
    assert.equal(await units(signer.address), 95_000_000);
    assert.equal(await units(house.payTo), 5_000_000);
  });

  it('gets the first answer for the payment sent again', async () => {
    const { data } = await json(await fetch(url + '/x402/top-up', { method: 'POST', headers: { ...bearer, 'PAYMENT-SIGNATURE': sent } }));
    assert.equal(data.newBalance, 5);
    assert.equal(await units(house.payTo), 5_000_000);
  });

  it('pays a chat by @x402/extensions alone', async () => {
    const answer = await chat(pay);
    await json(answer);
    left = spent(answer, 5);
  });

  it('sees its balance, signed as the extension does', async () => {
    const info = { domain: host, uri: origin, version: '1', chainId: network, type: 'ed25519', nonce: 'abcdef0123456789', issuedAt: new Date().toISOString() };
    const headers = { 'SIGN-IN-WITH-X': encodeSIWxHeader(await createSIWxPayload(info, signer, url)) };
    const { data } = await json(await fetch(`${url}/x402/balance/${signer.address}`, { headers }));
    assert.equal(data.balanceUsd, left);
  });

  it('sees its balance, with a whole message', async () => {
    const message = [
      `${host} wants you to sign in with your Solana account:`, signer.address, '', 'Sign in', '', `URI: ${origin}`, 'Version: 1',
      `Chain ID: ${network}`, 'Nonce: 0123456789abcdef', `Issued At: ${new Date().toISOString()}`,
    ].join('\n');
    const [signatures] = await signer.signMessages([createSignableMessage(message)]);
    const signature = getBase58Decoder().decode(signatures[signer.address]);
    const headers = { 'X-Sign-In-With-X': base64({ address: signer.address, message, signature, chainId: network, type: 'ed25519' }) };
    const { data } = await json(await fetch(`${url}/x402/balance/${signer.address}`, { headers }));
    assert.equal(data.balanceUsd, left);
  });

  it('is asked to pay when it has no funds', async () => {
    const poor = await createKeyPairSignerFromPrivateKeyBytes(crypto.getRandomValues(new Uint8Array(32)));
    await fund(poor.address, 1);
    const poorPay = wrapFetchWithPayment(fetch, x402Client.fromConfig({
      schemes: [{ network: 'solana:*', client: new ExactSvmScheme(poor, { rpcUrl: house.rpc }) }], spendControls,
    }));
    const body = await json(await poorPay(url + '/x402/top-up', { method: 'POST', headers: bearer }), 402);
    assert.equal(body.error, 'PAYMENT_VERIFICATION_FAILED');
  });
});
