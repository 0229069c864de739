// A node that clients take for Base, with a block each second: for bench/clients/wallets.
module.exports = { solidity: '0.8.28', networks: { hardhat: { chainId: 8453, mining: { auto: true, interval: 1000 } } } };
