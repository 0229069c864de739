package config

import "time"

// X402 says what wallets may do (interface.md, x402 wallet billing; addendum 14): top up
// by a signed payment, sign in, and pay for requests. Without it they may do nothing.
type X402 struct {
	// What POST /x402/top-up needs beside the payment. bearer: an API key; optional: a key that must be good if it is
	// sent; none: nothing. The wallet that pays is credited in any case.
	TopUpAuth string `yaml:"top_up_auth" default:"bearer" oneof:"bearer optional none"`
	// A wallet that signed in spends its credit on every paid endpoint.
	Inference bool `yaml:"inference"`
	// A request without a credential gets 402 with the ways to pay, instead of 401.
	Discovery bool `yaml:"discovery"`
	// Right to send a wallet's credit to another account. operator: farebox wallet link; admin:
	// also an ADMIN key of that account with the wallet's signature; none: nobody.
	Link string `yaml:"link" default:"operator" oneof:"operator admin none"`
	// Facilitators and chains are simulated ones of this machine.
	Simulated bool `yaml:"simulated"`

	// Smallest top-up in USD.
	MinTopUp Nano `yaml:"min_top_up" default:"5" range:"0.000001..1000000"`
	// Largest top-up in USD, at least min_top_up.
	MaxTopUp Nano `yaml:"max_top_up" default:"10000" range:"0.000001..1000000"`
	// Top-up in USD that clients are shown, between min_top_up and max_top_up.
	SuggestedTopUp Nano `yaml:"suggested_top_up" default:"10" range:"0.000001..1000000"`
	// USD that a wallet needs to begin a request.
	MinBalance Nano `yaml:"min_balance" default:"0.10" range:"0..1000000"`
	// Requests of a wallet at the same time on a node.
	MaxInFlight int `yaml:"max_in_flight" default:"5" range:"1..1000000"`
	// Top-ups a minute of one client address; 0: any number.
	TopUpPerIP int64 `yaml:"top_up_per_ip" default:"10" range:"0..1000000"`
	// Calls a minute of a wallet to its balance; 0: any number.
	BalancePerWallet int64 `yaml:"balance_per_wallet" default:"30" range:"0..1000000"`
	// Calls a minute of a wallet to its transactions; 0: any number.
	TransactionsPerWallet int64 `yaml:"transactions_per_wallet" default:"20" range:"0..1000000"`
	// Payments of all wallets without an outcome.
	MaxPending int `yaml:"max_pending" default:"10000" range:"1..1000000"`
	// Payments of one wallet without an outcome, at most max_pending.
	MaxPendingPerWallet int `yaml:"max_pending_per_wallet" default:"8" range:"1..1000"`
	// After this time a payment without an outcome is an alarm.
	PendingAlarm time.Duration `yaml:"pending_alarm" default:"10m" range:"1m..24h"`

	// The only wallets that may sign in and pay, addresses in quotes. Default: all.
	Allow []string `yaml:"allow" most:"100000 addresses"`
	// Wallets that may not sign in and pay. Default: none.
	Deny []string `yaml:"deny" most:"100000 addresses"`

	// Rules of the header SIGN-IN-WITH-X.
	SignIn X402SignIn `yaml:"sign_in"`
	// Chains on which wallets pay.
	Networks []X402Network `yaml:"networks" most:"32 networks"`
	// Services that bring signed payments onto a chain. The first healthy one for a network is asked.
	Facilitators []X402Facilitator `yaml:"facilitators" most:"32 facilitators"`

	allow, deny map[string]bool // by the wallet's name
}

// MayUse says that a wallet, named as accounts are, may sign in and pay.
func (x *X402) MayUse(wallet string) bool {
	return !x.deny[wallet] && (len(x.allow) == 0 || x.allow[wallet])
}

// X402SignIn are the rules of the header SIGN-IN-WITH-X (addendum 14.2).
type X402SignIn struct {
	// Hosts that wallets sign in to, with the port where it is not the usual one. A request's Host does not count.
	// Default: the host of public_url.
	Domains []string `yaml:"domains" most:"64 domains"`
	// Origins of the URI in the signed message. Default: https:// with each domain, and public_url.
	Origins []string `yaml:"origins" most:"128 origins"`
	// Age of a signed message.
	MaxAge time.Duration `yaml:"max_age" default:"5m" range:"10s..1h"`
	// Difference of clocks.
	Skew time.Duration `yaml:"skew" default:"30s" range:"0s..5m"`
	// single_use: each request is signed; reusable: one signature holds until max_age.
	Nonce string `yaml:"nonce" default:"single_use" oneof:"single_use reusable"`
	// Statement in the message that wallets sign, at most 200 characters. Default: Sign in to <Brand>
	Statement string `yaml:"statement"`
}

// X402Network is a chain on which wallets pay.
type X402Network struct {
	// base, base-sepolia, solana, solana-devnet, or a CAIP-2 name such as eip155:8453. Required.
	Network string `yaml:"network"`
	// Name of the network in rpc.networks whose nodes confirm payments. Required.
	RPC string `yaml:"rpc"`
	// Nodes that must agree before money is credited, at most as many as there are. Default: 2, or 1 where there is
	// one.
	Witnesses int `yaml:"witnesses"`
	// Where the money goes: a wallet that receives nothing else. Required.
	PayTo string `yaml:"pay_to"`
	// Token with 6 decimals. Default: USDC of the four networks with a name.
	Asset string `yaml:"asset"`
	// Name in the token's EIP-712 domain, 1 to 64 characters. Default: that of USDC.
	Name string `yaml:"name"`
	// Version in the token's EIP-712 domain, 1 to 64 characters. Default: that of USDC.
	Version string `yaml:"version"`
	// Blocks before a payment is credited, 1 to 10000. Solana always waits for confirmed.
	Confirmations int64 `yaml:"confirmations" default:"1"`
	// Blocks after which a payment is checked again, and taken back if the chain has lost it: confirmations to
	// 100000. Solana always waits for finalized.
	FinalDepth int64 `yaml:"final_depth" default:"12"`
	// Wallets that are contracts may pay and sign in (EIP-1271), which asks a node. Default true.
	ContractWallets *bool `yaml:"contract_wallets"`
}

// X402Facilitator brings signed payments onto a chain.
type X402Facilitator struct {
	// Name for logs and metrics: 1 to 64 letters, digits, . _ or -. Required.
	Name string `yaml:"name"`
	// Address that has /verify, /settle and /supported below it. Required.
	URL Secret `yaml:"url"`
	// none; bearer: token; cdp: a key of the Coinbase Developer Platform.
	Auth string `yaml:"auth" default:"none" oneof:"none bearer cdp"`
	// Token for auth: bearer.
	Token Secret `yaml:"token"`
	// Id of the key for auth: cdp.
	KeyID string `yaml:"key_id"`
	// Secret of the key for auth: cdp, Ed25519 as base64 or ES256 as PEM.
	Secret Secret `yaml:"secret"`
	// PEM file of the only certificates to trust. Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// Networks that it is used for. Default: all that it says it supports.
	Networks []string `yaml:"networks"`
	// Time for /verify.
	VerifyTimeout time.Duration `yaml:"verify_timeout" default:"10s" range:"100ms..1m"`
	// Time for /settle.
	SettleTimeout time.Duration `yaml:"settle_timeout" default:"45s" range:"1s..5m"`
	// Calls at the same time.
	MaxInFlight int `yaml:"max_in_flight" default:"32" range:"1..10000"`
}
