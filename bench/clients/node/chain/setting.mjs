// What both clients are told, and the contract that they deploy.
// tests/rpc/clients_test.go starts the node and the gateway and sets the variables.
function need(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set; these tests are started by: go test -C tests -run TestLongCryptoClients ./rpc`);
  }
  return value;
}

export const url = need('FAREBOX_RPC_URL');
export const key = need('FAREBOX_KEY');

// The first account that anvil and hardhat give money to; its key is public.
export const privateKey = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80';
export const other = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';

export const abi = [
  { type: 'function', name: 'get', inputs: [], outputs: [{ type: 'uint256' }], stateMutability: 'view' },
  { type: 'function', name: 'set', inputs: [{ type: 'uint256', name: 'value' }], outputs: [], stateMutability: 'nonpayable' },
  { type: 'function', name: 'fail', inputs: [], outputs: [], stateMutability: 'view' },
  { type: 'event', name: 'Changed', inputs: [{ type: 'uint256', name: 'value', indexed: false }] },
];

const word = (n) => n.toString(16).padStart(2, '0');
const push = (hex) => word(0x5f + hex.length / 2) + hex;
const op = { stop: '00', eq: '14', shl: '1b', shr: '1c', calldataload: '35', codecopy: '39', mstore: '52', sload: '54', sstore: '55', jumpi: '57', jumpdest: '5b', dup1: '80', log1: 'a1', ret: 'f3', revert: 'fd' };

// assemble makes the contract's code: get() gives slot 0, set(x) stores x and
// emits Changed(x), fail() reverts with the text "no".
export function assemble(selectors, topic) {
  const bodies = {
    get: push('00') + op.sload + push('00') + op.mstore + push('20') + push('00') + op.ret,
    set: push('04') + op.calldataload + op.dup1 + push('00') + op.sstore + push('00') + op.mstore + push(topic.slice(2)) + push('20') + push('00') + op.log1 + op.stop,
    fail:
      push('08c379a0') + push('e0') + op.shl + push('00') + op.mstore + push('20') + push('04') + op.mstore + push('02') + push('24') + op.mstore +
      push('6e6f') + push('f0') + op.shl + push('44') + op.mstore + push('64') + push('00') + op.revert,
  };
  const names = Object.keys(bodies);
  const head = push('00') + op.calldataload + push('e0') + op.shr;
  const entry = (name, at) => op.dup1 + push(selectors[name].slice(2)) + op.eq + push(word(at)) + op.jumpi;
  const otherwise = push('00') + push('00') + op.revert;
  let at = (head.length + names.length * entry('get', 0).length + otherwise.length) / 2;
  let table = '';
  let code = '';
  for (const name of names) {
    table += entry(name, at);
    code += op.jumpdest + bodies[name];
    at += 1 + bodies[name].length / 2;
  }
  // log1 takes offset, size and topic from the top; push order above is size,
  // then offset, behind the topic.
  const runtime = head + table + otherwise + code;
  const size = word(runtime.length / 2);
  const init = push(size) + op.dup1 + push('0b') + push('00') + op.codecopy + push('00') + op.ret;
  return '0x' + init + runtime;
}
