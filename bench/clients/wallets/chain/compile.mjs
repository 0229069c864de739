// Compiles token.sol with npm's solc.
import { readFileSync } from 'node:fs';
import solc from 'solc';

export function compile() {
  const input = {
    language: 'Solidity',
    sources: { 'token.sol': { content: readFileSync(new URL('token.sol', import.meta.url), 'utf8') } },
    settings: {
      optimizer: { enabled: true, runs: 200 },
      evmVersion: 'paris', // every node runs that
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input)));
  const errors = (output.errors ?? []).filter((e) => e.severity === 'error');
  if (errors.length > 0) {
    throw new Error(errors.map((e) => e.formattedMessage).join('\n'));
  }
  const of = (name) => {
    const { abi, evm } = output.contracts['token.sol'][name];
    return { abi, bytecode: '0x' + evm.bytecode.object };
  };
  return { Token: of('Token'), Wallet: of('Wallet') };
}
