package config

import "time"

// X402 is what wallets may do (interface.md, x402 wallet billing; addendum 14): top up
// by a signed payment, sign in, and pay for what they ask. nil: nothing.
type X402 struct {
	// TopUpAuth says what POST /x402/top-up asks for beside the payment: bearer
	// (default), optional or none. The wallet that pays is credited whoever asks.
	TopUpAuth string `yaml:"top_up_auth"`
	// Inference lets a wallet that signed in spend its credit on every paid
	// endpoint; default false.
	Inference bool `yaml:"inference"`
	// Discovery answers a request without a credential with 402 and how a wallet
	// could pay, instead of 401; default false.
	Discovery bool `yaml:"discovery"`
	// Link says who may have a wallet's credit go to another account: operator
	// (default; farebox wallet link), admin (an ADMIN key of that account, too,
	// with the wallet's signature) or none.
	Link string `yaml:"link"`
	// Simulated says that facilitators and chains are the simulated ones, for which
	// any wallet has funds. Refused beside upstreams that are not on this machine.
	Simulated bool `yaml:"simulated"`

	MinTopUp       Nano `yaml:"min_top_up"`       // default 5
	MaxTopUp       Nano `yaml:"max_top_up"`       // default 10000
	SuggestedTopUp Nano `yaml:"suggested_top_up"` // default 10
	// MinBalance is what a wallet must have to begin a request; default 0.10.
	MinBalance Nano `yaml:"min_balance"`
	// MaxInFlight is how many requests of a wallet may be under way on a node;
	// default 5.
	MaxInFlight int `yaml:"max_in_flight"`
	// Per minute: top-ups of an address (10), balance (30) and transactions (20) of
	// a wallet. 0: any number.
	TopUpPerIP            int64 `yaml:"top_up_per_ip"`
	BalancePerWallet      int64 `yaml:"balance_per_wallet"`
	TransactionsPerWallet int64 `yaml:"transactions_per_wallet"`
	// MaxPending is how many payments may be without an outcome at a time: of all
	// wallets, and of one. Default 10000 and 8.
	MaxPending          int `yaml:"max_pending"`
	MaxPendingPerWallet int `yaml:"max_pending_per_wallet"`
	// PendingAlarm is when a payment without an outcome is an alarm; default 10m.
	PendingAlarm time.Duration `yaml:"pending_alarm"`

	// Allow, if not empty, are the only wallets that may sign in and pay; Deny may not.
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`

	SignIn       X402SignIn        `yaml:"sign_in"`
	Networks     []X402Network     `yaml:"networks"`
	Facilitators []X402Facilitator `yaml:"facilitators"`

	allow, deny map[string]bool // by the wallet's name
}

// MayUse says that a wallet, named as accounts are, may sign in and pay.
func (x *X402) MayUse(wallet string) bool {
	return !x.deny[wallet] && (len(x.allow) == 0 || x.allow[wallet])
}

// X402SignIn are the rules of the header SIGN-IN-WITH-X (addendum 14.2).
type X402SignIn struct {
	// Domains that a message may be for, with the port where it is not the usual
	// one; default: the host of public_url. What a request's Host says never counts.
	Domains []string `yaml:"domains"`
	// Origins that its URI may have; default: https:// with each domain, and
	// public_url.
	Origins []string `yaml:"origins"`
	// MaxAge of a message; default 5m. Skew of clocks; default 30s.
	MaxAge time.Duration `yaml:"max_age"`
	Skew   time.Duration `yaml:"skew"`
	// Nonce is single_use (default), or reusable: the header holds until it is too
	// old, for clients that sign once for several requests.
	Nonce string `yaml:"nonce"`
	// Statement of the messages that clients are asked to sign; default
	// "Sign in to <Brand>".
	Statement string `yaml:"statement"`
}

// X402Network is a chain on which wallets pay.
type X402Network struct {
	// Network is its CAIP-2 name, eip155:8453 or solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp;
	// base and solana stand for these.
	Network string `yaml:"network"`
	// RPC is the network of rpc: whose nodes are asked what happened on the chain.
	RPC string `yaml:"rpc"`
	// Witnesses is how many of its nodes must say the same before money is credited;
	// default 2, or 1 where there is one node.
	Witnesses int    `yaml:"witnesses"`
	PayTo     string `yaml:"pay_to"`
	// Asset is the token, with 6 decimals; default USDC of the networks that are
	// known. Name and Version are of its EIP-712 domain.
	Asset   string `yaml:"asset"`
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	// Confirmations before a payment is credited; default 1. FinalDepth is when it
	// is looked at again, and taken back if the chain has lost it; default 12.
	// On Solana: confirmed, then finalized, whatever stands here.
	Confirmations int64 `yaml:"confirmations"`
	FinalDepth    int64 `yaml:"final_depth"`
	// ContractWallets may pay and sign in (EIP-1271), which asks a node; default true.
	ContractWallets *bool `yaml:"contract_wallets"`
}

// X402Facilitator brings signed payments onto a chain.
type X402Facilitator struct {
	Name string `yaml:"name"` // for logs and metrics
	URL  Secret `yaml:"url"`  // below which /verify, /settle and /supported are
	// Auth is none (default), bearer (Token) or cdp (KeyID and Secret of a key of the
	// Coinbase Developer Platform: Ed25519 as base64, or ES256 as PEM).
	Auth   string `yaml:"auth"`
	Token  Secret `yaml:"token"`
	KeyID  string `yaml:"key_id"`
	Secret Secret `yaml:"secret"`
	CAFile string `yaml:"ca_file"`
	// Networks that it is used for; default: all that it says it supports.
	Networks      []string      `yaml:"networks"`
	VerifyTimeout time.Duration `yaml:"verify_timeout"` // default 10s
	SettleTimeout time.Duration `yaml:"settle_timeout"` // default 45s
	MaxInFlight   int           `yaml:"max_in_flight"`  // default 32
}

func (x *X402) defaults() {
	*x = X402{
		TopUpAuth: "bearer", Link: "operator",
		MinTopUp: 5_000_000_000, MaxTopUp: 10_000_000_000_000, SuggestedTopUp: 10_000_000_000,
		MinBalance: 100_000_000, MaxInFlight: 5, TopUpPerIP: 10, BalancePerWallet: 30, TransactionsPerWallet: 20,
		MaxPending: 10_000, MaxPendingPerWallet: 8, PendingAlarm: 10 * time.Minute,
		SignIn: X402SignIn{MaxAge: 5 * time.Minute, Skew: 30 * time.Second, Nonce: "single_use"},
	}
}

func (n *X402Network) defaults() { n.Confirmations, n.FinalDepth = 1, 12 }

func (f *X402Facilitator) defaults() {
	f.Auth, f.VerifyTimeout, f.SettleTimeout, f.MaxInFlight = "none", 10*time.Second, 45*time.Second, 32
}
