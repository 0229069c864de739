// The house of a Solana chain: litesvm with the SPL token program, spoken to by as much
// JSON-RPC as wallets, facilitators and gateways need, and the public facilitator.
// Started by: go test -C tests -run TestLongWalletPackages ./wallet
import {
  address, createKeyPairSignerFromPrivateKeyBytes, getBase58Decoder, getBase64Decoder, getBase64Encoder,
  getTransactionDecoder, lamports,
} from '@solana/kit';
import { AccountState, findAssociatedTokenPda, getMintEncoder, getTokenDecoder, getTokenEncoder, TOKEN_PROGRAM_ADDRESS } from '@solana-program/token';
import { x402Facilitator } from '@x402/core/facilitator';
import { toFacilitatorSvmSigner } from '@x402/svm';
import { registerExactSvmScheme } from '@x402/svm/exact/facilitator';
import { FailedTransactionMetadata, LiteSVM } from 'litesvm';
import { facilitatorRoutes, ready, serve } from './serve.mjs';

const network = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';
const genesis = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d';
const mint = address('EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v');
const dollars = 1_000_000n;
const slotTime = 50; // ms
const rootDepth = 32;
const nobody = address('11111111111111111111111111111111');

const svm = new LiteSVM();
const born = Date.now();
const first = 1000;
const slot = () => first + Math.floor((Date.now() - born) / slotTime);
const base58 = getBase58Decoder();
const base64 = getBase64Decoder();

function put(at, data, programAddress = TOKEN_PROGRAM_ADDRESS) {
  svm.setAccount({
    address: at, data: new Uint8Array(data), executable: false, lamports: lamports(10_000_000n), programAddress,
    space: BigInt(data.length),
  });
}

put(mint, getMintEncoder().encode({ mintAuthority: nobody, supply: 1_000_000_000n * dollars, decimals: 6, isInitialized: true, freezeAuthority: null }));

async function accountOf(owner) {
  const [pda] = await findAssociatedTokenPda({ owner: address(owner), mint, tokenProgram: TOKEN_PROGRAM_ADDRESS });
  return pda;
}

async function fund({ address: owner, usd = 100 }) {
  const at = await accountOf(owner);
  put(at, getTokenEncoder().encode({
    mint, owner: address(owner), amount: BigInt(usd) * dollars, delegate: null, state: AccountState.Initialized, isNative: null,
    delegatedAmount: 0n, closeAuthority: null,
  }));
  return { address: at };
}

// What has landed, oldest first: litesvm keeps no blocks.
const landed = [];

function holding(at) {
  const account = svm.getAccount(address(at));
  if (!account.exists || account.programAddress !== TOKEN_PROGRAM_ADDRESS || account.data.length !== 165) {
    return null;
  }
  return getTokenDecoder().decode(account.data);
}

function accountValue(at) {
  const account = svm.getAccount(address(at));
  if (!account.exists) {
    return null;
  }
  return {
    data: [base64.decode(account.data), 'base64'], executable: account.executable, lamports: Number(account.lamports),
    owner: account.programAddress, rentEpoch: 0, space: account.data.length,
  };
}

class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const unpack = (wire) => getTransactionDecoder().decode(getBase64Encoder().encode(wire));

function send([wire]) {
  const transaction = unpack(wire);
  const keys = staticKeys(transaction.messageBytes);
  const tokens = () => keys.map((key, accountIndex) => ({ accountIndex, token: holding(key) })).filter(({ token }) => token).map(
    ({ accountIndex, token }) => ({
      accountIndex, mint: token.mint, owner: token.owner, programId: TOKEN_PROGRAM_ADDRESS,
      uiTokenAmount: { amount: String(token.amount), decimals: 6, uiAmount: null, uiAmountString: String(token.amount) },
    }));
  const before = tokens();
  const result = svm.sendTransaction(transaction);
  if (result instanceof FailedTransactionMetadata) {
    throw new Refusal(-32002, 'Transaction simulation failed: ' + result.toString());
  }
  const [signature] = Object.values(transaction.signatures).map((s) => base58.decode(s));
  landed.push({ signature, wire, slot: slot() + 1, keys, before, after: tokens(), blockTime: Math.floor(Date.now() / 1000) });
  return signature;
}

// staticKeys are the accounts that a message of version 0 names.
function staticKeys(message) {
  const at = 4; // version and header
  const count = message[at]; // never more than 127
  return Array.from({ length: count }, (_, i) => base58.decode(message.slice(at + 1 + 32 * i, at + 33 + 32 * i)));
}

function simulate([wire, options = {}]) {
  svm.withSigverify(Boolean(options.sigVerify));
  try {
    const result = svm.simulateTransaction(unpack(wire));
    const failed = result instanceof FailedTransactionMetadata;
    return valued({
      err: failed ? result.toString() : null, logs: failed ? [] : result.meta().logs(), accounts: null, returnData: null,
      unitsConsumed: failed ? 0 : Number(result.meta().computeUnitsConsumed()), innerInstructions: [], loadedAccountsDataSize: 0,
    });
  } finally {
    svm.withSigverify(true);
  }
}

const commitments = { processed: 0, confirmed: 1, finalized: rootDepth };
const seenAt = (commitment = 'finalized') => slot() - commitments[commitment];
const valued = (value, commitment) => ({ context: { slot: seenAt(commitment), apiVersion: '2.3.0' }, value });
const find = (signature) => landed.find((t) => t.signature === signature && t.slot <= slot());

function status(t) {
  const behind = slot() - t.slot;
  return behind >= rootDepth ? 'finalized' : behind >= 1 ? 'confirmed' : 'processed';
}

const methods = {
  getGenesisHash: () => genesis,
  getVersion: () => ({ 'solana-core': '2.3.0', 'feature-set': 1 }),
  getHealth: () => 'ok',
  getSlot: ([options]) => seenAt(options?.commitment),
  getBlockHeight: ([options]) => seenAt(options?.commitment),
  getBlockTime: ([at]) => Math.floor((born + (at - first) * slotTime) / 1000),
  getLatestBlockhash: ([options]) => valued({ blockhash: svm.latestBlockhash(), lastValidBlockHeight: seenAt(options?.commitment) + 150 }, options?.commitment),
  isBlockhashValid: ([hash, options]) => valued(hash === svm.latestBlockhash(), options?.commitment),
  getAccountInfo: ([at]) => valued(accountValue(at)),
  getMultipleAccounts: ([list]) => valued(list.map(accountValue)),
  getBalance: ([at]) => valued(Number(svm.getBalance(address(at)) ?? 0n)),
  getTokenAccountBalance: ([at]) => {
    const token = holding(at);
    if (!token) {
      throw new Refusal(-32602, 'Invalid param: could not find account');
    }
    return valued({ amount: String(token.amount), decimals: 6, uiAmount: null, uiAmountString: String(token.amount) });
  },
  getSignatureStatuses: ([list]) => valued(list.map((signature) => {
    const t = find(signature);
    return t ? { slot: t.slot, confirmations: null, err: null, status: { Ok: null }, confirmationStatus: status(t) } : null;
  })),
  getTransaction: ([signature, options]) => {
    const t = find(signature);
    if (!t || t.slot > seenAt(options?.commitment)) {
      return null;
    }
    return {
      slot: t.slot, blockTime: t.blockTime, version: 0, transaction: [t.wire, 'base64'],
      meta: {
        err: null, status: { Ok: null }, fee: 10_000, innerInstructions: [], logMessages: [], preBalances: [], postBalances: [],
        preTokenBalances: t.before, postTokenBalances: t.after, loadedAddresses: { readonly: [], writable: [] }, rewards: [],
        computeUnitsConsumed: 6000,
      },
    };
  },
  getSignaturesForAddress: ([at, options]) => landed
    .filter((t) => t.slot <= seenAt(options?.commitment) && t.keys.includes(at))
    .reverse().slice(0, options?.limit ?? 1000)
    .map((t) => ({ signature: t.signature, slot: t.slot, err: null, memo: null, blockTime: t.blockTime, confirmationStatus: status(t) })),
  sendTransaction: send,
  simulateTransaction: simulate,
};

function call({ id, method, params = [] }) {
  try {
    if (!methods[method]) {
      throw new Refusal(-32601, `Method not found: ${method}`);
    }
    return { jsonrpc: '2.0', result: methods[method](params), id };
  } catch (err) {
    return { jsonrpc: '2.0', error: { code: err.code ?? -32603, message: String(err.message) }, id };
  }
}

const signer = await createKeyPairSignerFromPrivateKeyBytes(crypto.getRandomValues(new Uint8Array(32)));
svm.airdrop(signer.address, lamports(10_000_000_000n));
const payTo = await createKeyPairSignerFromPrivateKeyBytes(crypto.getRandomValues(new Uint8Array(32)));
await fund({ address: payTo.address, usd: 0 });

// The node's address is known once it is served; nobody asks the facilitator before.
const late = {};
const url = await serve({
  '/rpc': (body) => (Array.isArray(body) ? body.map(call) : call(body)),
  '/fund': fund,
  '/balance': async ({ address: owner }) => ({ units: String(holding(await accountOf(owner))?.amount ?? 0n) }),
  ...Object.fromEntries(['supported', 'verify', 'settle'].map((name) => [`/facilitator/${name}`, (body) => late[`/facilitator/${name}`](body)])),
});
const facilitator = registerExactSvmScheme(new x402Facilitator(), {
  signer: toFacilitatorSvmSigner(signer, { defaultRpcUrl: url + '/rpc' }), networks: network,
});
Object.assign(late, facilitatorRoutes(facilitator));
ready({ url, rpc: url + '/rpc', facilitator: url + '/facilitator', asset: mint, payTo: payTo.address, feePayer: signer.address });
