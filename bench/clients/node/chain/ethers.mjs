import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ContractFactory, FetchRequest, Interface, JsonRpcProvider, NonceManager, Wallet, id, parseEther } from 'ethers';
import { abi, assemble, key, other, privateKey, url } from './setting.mjs';

function connect(options) {
  const request = new FetchRequest(url);
  request.setHeader('Authorization', `Bearer ${key}`);
  const provider = new JsonRpcProvider(request, undefined, { cacheTimeout: -1, ...options });
  provider.pollingInterval = 50;
  return provider;
}

describe('ethers', () => {
  const provider = connect(); // batches what is asked within 10 ms
  const wallet = new NonceManager(new Wallet(privateKey, provider));
  let contract;

  before(async () => {
    const selector = (text) => id(text).slice(0, 10);
    const selectors = { get: selector('get()'), set: selector('set(uint256)'), fail: selector('fail()') };
    const factory = new ContractFactory(new Interface(abi), assemble(selectors, id('Changed(uint256)')), wallet);
    contract = await factory.deploy();
    await contract.waitForDeployment();
  });

  after(() => provider.destroy());

  it('reads the chain', async () => {
    assert.equal((await provider.getNetwork()).chainId, 31337n);
    const [number, balance, block] = await Promise.all([provider.getBlockNumber(), provider.getBalance(await wallet.getAddress()), provider.getBlock('latest', true)]);
    assert.ok(number > 0 && balance > parseEther('9000') && block.hash.length === 66);
  });

  it('reads, writes, waits for the receipt and finds the event', async () => {
    const receipt = await (await contract.set(77n)).wait();
    assert.equal(receipt.status, 1);
    assert.equal(await contract.get(), 77n);
    const events = await contract.queryFilter('Changed', receipt.blockNumber);
    assert.equal(events[0].args.value, 77n);
  });

  it('gets every answer of a large batch', async () => {
    const addresses = Array.from({ length: 99 }, (_, i) => `0x${(i + 1).toString(16).padStart(40, '0')}`);
    const counts = await Promise.all(addresses.map((a) => provider.getTransactionCount(a)));
    assert.deepEqual(counts, addresses.map(() => 0));
  });

  it('sees a revert with its reason', async () => {
    await assert.rejects(contract.fail(), (e) => e.code === 'CALL_EXCEPTION' && e.reason === 'no');
  });

  it('transfers money with a signed transaction', async () => {
    const before = await provider.getBalance(other);
    await (await wallet.sendTransaction({ to: other, value: parseEther('0.25') })).wait();
    assert.equal((await provider.getBalance(other)) - before, parseEther('0.25'));
  });

  it('sees a transaction that the node refuses', async () => {
    const poor = new Wallet('0x' + '42'.repeat(32), provider);
    await assert.rejects(poor.sendTransaction({ to: other, value: parseEther('1') }), (e) => ['INSUFFICIENT_FUNDS', 'UNKNOWN_ERROR', 'CALL_EXCEPTION'].includes(e.code));
  });

  it('does the same without batches', async () => {
    const single = connect({ batchMaxCount: 1 });
    const [a, b] = await Promise.all([single.getBlockNumber(), single.getFeeData()]);
    assert.ok(a > 0 && b.gasPrice > 0n);
    single.destroy();
  });
});
