// A node of the second kind for chain.test of farebox: a fresh chain in memory.
module.exports = { solidity: '0.8.28', networks: { hardhat: { chainId: 31337 } } };
