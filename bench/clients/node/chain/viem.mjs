import assert from 'node:assert/strict';
import { describe, it, before } from 'node:test';
import { createPublicClient, createWalletClient, http, parseEther, toEventSelector, toFunctionSelector, ContractFunctionRevertedError, HttpRequestError, MethodNotSupportedRpcError } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { foundry } from 'viem/chains';
import { abi, assemble, key, other, privateKey, url } from './setting.mjs';

const charges = [];
const transport = (batch) =>
  http(url, {
    batch,
    retryCount: 0,
    timeout: 60_000,
    fetchOptions: { headers: { Authorization: `Bearer ${key}` } },
    onFetchResponse: (r) => {
      charges.push(r.headers.get('x-svc-rpc-credits'));
    },
  });
const account = privateKeyToAccount(privateKey);
const client = createPublicClient({ chain: foundry, transport: transport(false), pollingInterval: 50, cacheTime: 0 });
const batching = createPublicClient({ chain: foundry, transport: transport({ batchSize: 50, wait: 20 }), cacheTime: 0 });
const wallet = createWalletClient({ account, chain: foundry, transport: transport(false) });

describe('viem', () => {
  let address;

  before(async () => {
    const selectors = Object.fromEntries(['get()', 'set(uint256)', 'fail()'].map((s) => [s.split('(')[0], toFunctionSelector(s)]));
    const hash = await wallet.deployContract({ abi, bytecode: assemble(selectors, toEventSelector('Changed(uint256)')) });
    const receipt = await client.waitForTransactionReceipt({ hash });
    assert.equal(receipt.status, 'success');
    address = receipt.contractAddress;
  });

  it('reads the chain, and each call is charged', async () => {
    charges.length = 0;
    assert.equal(await client.getChainId(), 31337);
    assert.ok((await client.getBlockNumber()) > 0n);
    assert.ok((await client.getBalance({ address: account.address })) > parseEther('9000'));
    const block = await client.getBlock({ includeTransactions: true });
    assert.equal(block.hash.length, 66);
    assert.deepEqual(charges, ['20', '20', '20', '20']);
  });

  it('reads, writes and waits for the receipt', async () => {
    const hash = await wallet.writeContract({ address, abi, functionName: 'set', args: [42n] });
    const receipt = await client.waitForTransactionReceipt({ hash });
    assert.equal(receipt.logs.length, 1);
    assert.equal(await client.readContract({ address, abi, functionName: 'get' }), 42n);
    const events = await client.getContractEvents({ address, abi, eventName: 'Changed', fromBlock: receipt.blockNumber });
    assert.equal(events[0].args.value, 42n);
  });

  it('sends many calls as one batch', async () => {
    charges.length = 0;
    const balances = await Promise.all(Array.from({ length: 30 }, (_, i) => batching.getBalance({ address: `0x${(i + 1).toString(16).padStart(40, '0')}` })));
    assert.equal(balances.length, 30);
    assert.deepEqual(charges, ['600']);
  });

  it('sees a revert with its reason, alone and in a batch', async () => {
    for (const c of [client, batching]) {
      charges.length = 0;
      const [failed, read] = await Promise.allSettled([c.readContract({ address, abi, functionName: 'fail' }), c.readContract({ address, abi, functionName: 'get' })]);
      assert.equal(read.value, 42n);
      const reverted = failed.reason.walk((e) => e instanceof ContractFunctionRevertedError);
      assert.equal(reverted?.reason, 'no');
      assert.equal(charges.reduce((sum, n) => sum + Number(n), 0), 25);
    }
  });

  it('transfers money with a signed transaction', async () => {
    const before = await client.getBalance({ address: other });
    const hash = await wallet.sendTransaction({ to: other, value: parseEther('1.5') });
    await client.waitForTransactionReceipt({ hash });
    assert.equal((await client.getBalance({ address: other })) - before, parseEther('1.5'));
    // Sent again, as after a lost connection: the same hash, no second transfer.
    const tx = await client.getTransaction({ hash });
    assert.equal(tx.hash, hash);
  });

  it('gets the same hash for a transaction that is sent twice', async () => {
    const request = await wallet.prepareTransactionRequest({ to: other, value: 1n });
    const serializedTransaction = await wallet.signTransaction(request);
    const first = await client.sendRawTransaction({ serializedTransaction });
    await client.waitForTransactionReceipt({ hash: first });
    assert.equal(await client.sendRawTransaction({ serializedTransaction }), first);
  });

  it('is refused what keeps state in a node', async () => {
    await assert.rejects(client.createEventFilter(), (e) => {
      const cause = e.walk((x) => x instanceof HttpRequestError || x instanceof MethodNotSupportedRpcError) ?? e;
      assert.match(String(cause.details ?? cause.message) + JSON.stringify(cause), /eth_newFilter/);
      return true;
    });
  });
});
