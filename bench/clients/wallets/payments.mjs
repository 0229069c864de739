// What viem and @x402/svm say of payments: reads a JSON object a line with a payment's header and the terms, and
// answers with a line whether they would take it. Started by: go test -run TestLongPaymentsAreReadAsTheirPackagesDo
// ./providers/x402
import { createInterface } from 'node:readline';
import { getBase64Encoder, getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit';
import { ExactSvmScheme } from '@x402/svm/exact/facilitator';
import { verifyTypedData } from 'viem';

const types = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
};
const halfOrder = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;
const number = /^(0|[1-9][0-9]*)$/;
// viem takes no address that is all capitals, which has no checksum to be wrong.
const address = (text) => (/^0x[0-9A-F]{40}$/.test(text) ? text.toLowerCase() : text);

// A network by the name that version 1 has for it, too.
const names = { base: 'eip155:8453', solana: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' };

async function evm(payload, terms) {
  const a = { ...payload.authorization };
  for (const name of ['value', 'validAfter', 'validBefore']) {
    if (!number.test(a[name]) || BigInt(a[name]) >= 1n << 256n) return { taken: false, why: name };
    a[name] = BigInt(a[name]);
  }
  a.from = address(a.from);
  a.to = address(a.to);
  if (a.to.toLowerCase() !== terms.payTo.toLowerCase() || a.from.toLowerCase() === a.to.toLowerCase()) return { taken: false, why: 'to' };
  if (a.value < BigInt(terms.least) || a.value > BigInt(terms.most)) return { taken: false, why: 'amount' };
  if (a.validAfter >= BigInt(terms.now) || a.validBefore < BigInt(terms.now) + 10n) return { taken: false, why: 'time' };
  const { signature } = payload;
  // The token takes neither of these, and viem both.
  const strict = signature.length === 132 && BigInt('0x' + signature.slice(66, 130)) <= halfOrder && ['1b', '1c'].includes(signature.slice(130).toLowerCase());
  const good = await verifyTypedData({
    address: a.from, domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: terms.asset },
    types, primaryType: 'TransferWithAuthorization', message: a, signature,
  });
  return { taken: good && strict, why: good ? 'form of the signature' : 'signature' };
}

async function svm(payload, terms) {
  const bytes = getBase64Encoder().encode(payload.transaction);
  const message = getCompiledTransactionMessageDecoder().decode(getTransactionDecoder().decode(bytes).messageBytes);
  const data = message.instructions[2].data;
  const amount = new DataView(data.buffer, data.byteOffset).getBigUint64(1, true);
  if (amount < BigInt(terms.least) || amount > BigInt(terms.most)) return { taken: false, why: 'amount' };
  const scheme = new ExactSvmScheme({
    getAddresses: () => [terms.feePayer],
    simulateTransaction: async () => {},
  });
  const need = {
    scheme: 'exact', network: names.solana, amount: String(amount), asset: terms.mint, payTo: terms.solanaPayTo,
    maxTimeoutSeconds: 300, extra: { feePayer: terms.feePayer },
  };
  const { isValid, invalidReason } = await scheme.verify({ x402Version: 2, accepted: need, payload }, need);
  return { taken: isValid, why: invalidReason };
}

async function judge({ header, terms }) {
  try {
    const payment = JSON.parse(Buffer.from(header, 'base64').toString('utf8'));
    const chosen = payment.accepted ?? payment;
    if (![1, 2].includes(payment.x402Version) || chosen.scheme !== 'exact') return { taken: false, why: 'scheme' };
    const network = names[chosen.network] ?? chosen.network;
    if (network === names.base) return await evm(payment.payload, terms);
    if (network === names.solana) return await svm(payment.payload, terms);
    return { taken: false, why: 'network' };
  } catch (err) {
    return { taken: false, why: String(err.message).split('\n')[0] };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await judge(JSON.parse(line))));
}
