// Keys for a wallet's signature, as viem and ethers sign. Started by: go test -C tests -run TestLongWalletPackages ./account
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Wallet } from 'ethers';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';

const path = process.env.FAREBOX_URL + '/api_keys/generate_web3_key';

const signers = {
  viem() {
    const account = privateKeyToAccount(generatePrivateKey());
    return { address: account.address, sign: (message) => account.signMessage({ message }) };
  },
  ethers() {
    const wallet = Wallet.createRandom();
    return { address: wallet.address, sign: (message) => wallet.signMessage(message) };
  },
};

async function token() {
  const { data } = await (await fetch(path)).json();
  return data.token;
}

async function exchange(signer, signed, sent) {
  const body = { apiKeyType: 'INFERENCE', address: signer.address, signature: await signer.sign(signed), token: sent };
  const answer = await fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  return { status: answer.status, body: await answer.json() };
}

for (const [name, make] of Object.entries(signers)) {
  describe(name, () => {
    it('gets a key', async () => {
      const text = await token();
      const { status, body } = await exchange(make(), text, text);
      assert.equal(status, 200, JSON.stringify(body));
      const models = await fetch(process.env.FAREBOX_URL + '/models', { headers: { authorization: `Bearer ${body.data.apiKey}` } });
      assert.equal(models.status, 200);
    });

    it('gets none for another text', async () => {
      const text = await token();
      const { status, body } = await exchange(make(), text + ' ', text);
      assert.equal(status, 400);
      assert.match(JSON.stringify(body), /Wallet signature does not match/);
    });
  });
}
