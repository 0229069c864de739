// The house of an EVM: puts the token on the node at argv[2], of the kind argv[3], and
// serves the public facilitator for it. Started by: go test -C tests -run TestLongWalletPackages ./wallet
import { x402Facilitator } from '@x402/core/facilitator';
import { toFacilitatorEvmSigner } from '@x402/evm';
import { registerExactEvmScheme } from '@x402/evm/exact/facilitator';
import { createWalletClient, http, publicActions } from 'viem';
import { mnemonicToAccount } from 'viem/accounts';
import { base } from 'viem/chains';
import { compile } from './compile.mjs';
import { facilitatorRoutes, ready, serve } from './serve.mjs';

const rpc = process.argv[2];
const dollars = 1_000_000n;
// The accounts that every local node has funds for.
const at = (addressIndex) =>
  createWalletClient({
    account: mnemonicToAccount('test test test test test test test test test test test junk', { addressIndex }),
    chain: base,
    transport: http(rpc),
    pollingInterval: 50,
  }).extend(publicActions);
const deployer = at(0);
const payer = at(1);

const { Token, Wallet } = compile();

async function deploy({ abi, bytecode }, args = []) {
  const hash = await deployer.deployContract({ abi, bytecode, args });
  return (await deployer.waitForTransactionReceipt({ hash })).contractAddress;
}

// The token has no state of its making, so that its code works where the real one is:
// unmodified clients pay in no other.
const asset = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913';
const kind = process.argv[3]; // hardhat or anvil
const code = await deployer.getCode({ address: await deploy(Token) });
await deployer.request({ method: `${kind}_setCode`, params: [asset, code] });

async function fund({ address, usd = 100 }) {
  const hash = await deployer.writeContract({ address: asset, abi: Token.abi, functionName: 'mint', args: [address, BigInt(usd) * dollars] });
  await deployer.waitForTransactionReceipt({ hash });
  return { address };
}

const signer = toFacilitatorEvmSigner({
  address: payer.account.address,
  readContract: (args) => payer.readContract(args),
  verifyTypedData: (args) => payer.verifyTypedData(args),
  writeContract: (args) => payer.writeContract(args),
  sendTransaction: (args) => payer.sendTransaction(args),
  waitForTransactionReceipt: (args) => payer.waitForTransactionReceipt(args),
  getCode: (args) => payer.getCode(args),
});
const facilitator = registerExactEvmScheme(new x402Facilitator(), { signer, networks: 'eip155:8453' });

// One after the other: the deployer's transactions are counted.
let last = Promise.resolve();
const turns = (f) => (body) => (last = last.catch(() => {}).then(() => f(body)));

const url = await serve({
  ...facilitatorRoutes(facilitator),
  '/fund': turns(fund),
  '/contract': turns(async ({ owner }) => fund({ address: await deploy(Wallet, [owner]) })),
  '/balance': async ({ address }) => ({
    units: String(await deployer.readContract({ address: asset, abi: Token.abi, functionName: 'balanceOf', args: [address] })),
  }),
  '/mine': async ({ blocks = 1 }) => {
    await deployer.request({ method: `${kind}_mine`, params: ['0x' + blocks.toString(16)] });
    return {};
  },
});
ready({ url, facilitator: url + '/facilitator', asset });
