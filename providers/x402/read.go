package x402

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"farebox/config"
	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/svm"
	"farebox/proxy/scan"
)

const (
	// LeastLife is how long an authorization must still hold, so that it can be
	// brought onto a chain: facilitators want 6 seconds. It says nothing about one that
	// is on the chain already, so that callers that ask the chain check it.
	LeastLife = 10 * time.Second
	// MostLife is how long an authorization may hold at most: an hour, which the MCP
	// and Go clients sign, and ten minutes for clocks that differ. Until it expires, the
	// payment may take a place that others need.
	MostLife = 70 * time.Minute
	// MostPast bounds the age of an expired authorization that is looked for on the chain:
	// a store may be restored from a backup, and older payments may be to an earlier owner
	// of the address of pay_to.
	MostPast = 7 * 24 * time.Hour
	// maxSignature of a contract wallet.
	maxSignature = 4 << 10
)

// Read reads a payment from its header and makes all checks that need no request. Where a
// contract wallet pays, the chain must still confirm its signature; the payment's Order
// says so.
func (t *Terms) Read(header string, now time.Time) (*onchain.Payment, error) {
	s, refusal := open(header)
	if refusal != nil {
		return nil, refusal
	}
	n, refusal := t.network(s)
	if refusal != nil {
		return nil, refusal
	}
	payload := s.member(-1, topPayload, scan.Object)
	if payload < 0 {
		return nil, invalid("payload is missing or no object")
	}
	if n.EVM() {
		return n.readEVM(s, payload, now)
	}
	return t.readSolana(n, s, payload)
}

func invalid(text string) *onchain.Refusal {
	return &onchain.Refusal{Code: onchain.CodePayment, Text: "the payment is not valid: " + text}
}

// network is the one that a payment is for, by its entry or its own members.
func (t *Terms) network(s *strictJSON) (*Network, *onchain.Refusal) {
	version := s.member(-1, topVersion, scan.Number)
	if version < 0 {
		return nil, invalid("x402Version is missing or no number")
	}
	if v := string(s.doc.Fields[version].Raw(s.text)); v != "1" && v != "2" {
		return nil, invalid("x402Version is not known; expected 2")
	}
	parent, schemeID, networkID := int32(-1), topScheme, topNetwork
	if s.has(-1, topAccepted) {
		if parent = s.member(-1, topAccepted, scan.Object); parent < 0 {
			return nil, invalid("accepted is not an object; expected the chosen entry")
		}
		schemeID, networkID = acceptedScheme, acceptedNetwork
	}
	way, ok := s.string(parent, schemeID)
	if !ok {
		return nil, invalid("scheme is missing or no string")
	}
	if way != scheme {
		return nil, &onchain.Refusal{Code: onchain.CodeScheme, Text: "this scheme is not taken; expected exact"}
	}
	name, ok := s.string(parent, networkID)
	if !ok {
		return nil, invalid("network is missing or no string")
	}
	n := t.Network(name)
	if n == nil {
		return nil, &onchain.Refusal{Code: onchain.CodeNetwork, Text: "this network is not taken; expected one of " + t.names()}
	}
	return n, nil
}

func (t *Terms) names() string {
	var names []string
	for _, n := range t.Networks {
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}

func (n *Network) readEVM(s *strictJSON, payload int32, now time.Time) (*onchain.Payment, error) {
	auth := s.member(payload, payloadAuthorization, scan.Object)
	if auth < 0 {
		return nil, invalid("payload.authorization is missing or no object; expected an authorization of EIP-3009")
	}
	a, refusal := readAuthorization(s, auth)
	if refusal != nil {
		return nil, refusal
	}
	text, _ := s.string(payload, payloadSignature)
	signature, ok := evm.ParseHex(text, maxSignature)
	if !ok || len(signature) == 0 {
		return nil, invalid("payload.signature is missing or not 0x and hexadecimal digits")
	}
	if refusal = n.rules(a, now); refusal != nil {
		return nil, refusal
	}
	digest := a.Digest(n.separator)
	contract, refusal := n.signed(a, digest, signature)
	switch {
	case (contract || refusal != nil) && n.foreign(s):
		return nil, n.wrongToken()
	case refusal != nil:
		return nil, refusal
	}
	units, _ := a.Value.Int()
	until, _ := a.ValidBefore.Int()
	o := &Order{Network: n.Name, Asset: n.Asset.String(), PayTo: n.PayTo.String(), Payer: a.From.String(), Units: units,
		Requirement: n.Requirement(units), EVM: newEVMOrder(a, digest, signature, contract)}
	return o.payment(n.evmIdentity(o.Payer, evm.Hex(a.Nonce[:])),
		sha256.Sum256(append([]byte("evm payment:"), digest[:]...)), time.Unix(until, 0).UTC())
}

// foreign says that a payment names another token than ours.
func (n *Network) foreign(s *strictJSON) bool {
	accepted := s.member(-1, topAccepted, scan.Object)
	if accepted < 0 {
		return false
	}
	asset, ok := s.string(accepted, acceptedAsset)
	a, err := wallet.ParseAddress(asset)
	return ok && (err != nil || a != n.Asset)
}

func (n *Network) wrongToken() *onchain.Refusal {
	return &onchain.Refusal{Code: onchain.CodeToken, Text: "this token is not taken; expected " + n.Asset.Checksummed()}
}

func readAuthorization(s *strictJSON, at int32) (*evm.Authorization, *onchain.Refusal) {
	a := new(evm.Authorization)
	var err error
	text, _ := s.string(at, authFrom)
	if a.From, err = wallet.ParseAddress(text); err != nil || a.From.Family() != wallet.EVM {
		return nil, &onchain.Refusal{Code: onchain.CodePayer, Text: "payload.authorization.from is not an address of this network"}
	}
	text, _ = s.string(at, authTo)
	if a.To, err = wallet.ParseAddress(text); err != nil || a.To.Family() != wallet.EVM {
		return nil, &onchain.Refusal{Code: onchain.CodeRecipient, Text: "payload.authorization.to is not an address of this network"}
	}
	text, _ = s.string(at, authValue)
	if a.Value, err = evm.ParseNumber(text); err != nil {
		return nil, &onchain.Refusal{Code: onchain.CodeAmount, Text: "payload.authorization.value " + err.Error() + ", as a string"}
	}
	text, _ = s.string(at, authAfter)
	if a.ValidAfter, err = evm.ParseNumber(text); err != nil {
		return nil, invalid("validAfter " + err.Error() + ", as a string")
	}
	text, _ = s.string(at, authBefore)
	if a.ValidBefore, err = evm.ParseNumber(text); err != nil {
		return nil, invalid("validBefore " + err.Error() + ", as a string")
	}
	text, _ = s.string(at, authNonce)
	var ok bool
	if a.Nonce, ok = evm.ParseWord(text); !ok {
		return nil, invalid("nonce is not 0x and 64 hexadecimal digits")
	}
	return a, nil
}

// rules are the rules for an authorization of any payer.
func (n *Network) rules(a *evm.Authorization, now time.Time) *onchain.Refusal {
	switch {
	case a.To != n.PayTo:
		return &onchain.Refusal{Code: onchain.CodeRecipient, Text: "it pays somebody else; expected to: " + n.PayTo.Checksummed()}
	case a.From == n.PayTo, a.From.EVM() == [20]byte{}:
		return &onchain.Refusal{Code: onchain.CodePayer, Text: "this wallet cannot pay; expected another one than the receiver's"}
	}
	units, fits := a.Value.Int()
	if !fits {
		units = math.MaxInt64
	}
	if refusal := n.amount(units); refusal != nil {
		return refusal
	}
	if from, fits := a.ValidAfter.Int(); !fits || from >= now.Unix() {
		return unverified(onchain.ReasonNotYetValid, "the authorization is not valid yet; expected validAfter in the past")
	}
	if until, fits := a.ValidBefore.Int(); fits && until < now.Add(-MostPast).Unix() {
		return unverified(onchain.ReasonExpired, "the authorization expired long ago; expected validBefore at least 10 seconds from "+
			"now")
	}
	if until, fits := a.ValidBefore.Int(); !fits || until > now.Add(MostLife).Unix() {
		return unverified(onchain.ReasonTooLong, "the authorization holds for too long; expected validBefore at most "+
			strconv.Itoa(int(MostLife/time.Second))+" seconds from now")
	}
	return nil
}

func (n *Network) amount(units int64) *onchain.Refusal {
	switch {
	case units < n.leastU:
		return &onchain.Refusal{Code: onchain.CodeTooLow, Text: "the amount is too low; expected at least " +
			strconv.FormatInt(n.leastU, 10) + " units of the token"}
	case units > n.mostU:
		return &onchain.Refusal{Code: onchain.CodeTooHigh, Text: "the amount is too high; expected at most " +
			strconv.FormatInt(n.mostU, 10) + " units of the token"}
	}
	return nil
}

// signed says whether the payer signed, if that shows without a request: contract says that
// it does not, and that a contract wallet may have signed.
func (n *Network) signed(a *evm.Authorization, digest evm.Word, signature []byte) (contract bool, refusal *onchain.Refusal) {
	if evm.IsWrapped(signature) {
		return false, unverified(onchain.ReasonWrapped, "the signature is of a wallet that is not deployed yet (ERC-6492), which "+
			"is not taken; expected the wallet to be deployed, and its plain signature")
	}
	// The token itself takes no other v.
	if len(signature) == 65 && signature[64] >= 27 {
		if who, err := wallet.Recover(signature, digest); err == nil && who == a.From {
			return false, nil
		}
	}
	if !n.Contracts {
		return false, unverified(onchain.ReasonSignature,
			"the signature is not the payer's; wallets that are contracts are not taken")
	}
	return true, nil
}

func (t *Terms) readSolana(n *Network, s *strictJSON, payload int32) (*onchain.Payment, error) {
	text, ok := s.string(payload, payloadTransaction)
	if !ok {
		return nil, invalid("payload.transaction is missing or no string")
	}
	wire, ok := decode(text)
	if !ok {
		return nil, invalid("payload.transaction is not base64")
	}
	tx, err := svm.Parse(wire)
	if err != nil {
		return nil, invalid("payload.transaction " + err.Error())
	}
	p, err := tx.Payment(n.Asset, n.PayTo)
	if err != nil {
		return nil, n.solanaRefusal(err)
	}
	switch {
	case p.Payer == n.PayTo:
		return nil, &onchain.Refusal{Code: onchain.CodePayer, Text: "this wallet cannot pay; expected another one than the receiver's"}
	case p.Units > math.MaxInt64:
		p.Units = math.MaxInt64
	}
	if refusal := n.amount(int64(p.Units)); refusal != nil {
		return nil, refusal
	}
	r := n.Requirement(int64(p.Units))
	r.Extra.FeePayer = p.FeePayer.String()
	o := &Order{Network: n.Name, Asset: n.Asset.String(), PayTo: n.PayTo.String(), Payer: p.Payer.String(),
		Units: int64(p.Units), Requirement: r, Solana: &SolanaOrder{Transaction: base64.StdEncoding.EncodeToString(wire),
			Source: p.Source.String(), FeePayer: p.FeePayer.String()}}
	sum := sha256.Sum256(tx.Message)
	return o.payment(solanaIdentity(sum), sha256.Sum256(append([]byte("svm payment:"), tx.Message...)), time.Time{})
}

func (n *Network) solanaRefusal(err error) *onchain.Refusal {
	text := "the payment is not valid: payload.transaction " + err.Error()
	switch {
	case errors.Is(err, svm.ErrToken):
		return n.wrongToken()
	case errors.Is(err, svm.ErrRecipient):
		return &onchain.Refusal{Code: onchain.CodeRecipient,
			Text: "it pays somebody else; expected the associated token account of " + n.PayTo.String()}
	case errors.Is(err, svm.ErrFeePayer):
		return unverified(onchain.ReasonFeePayer, text+"; expected the feePayer of the entry")
	case errors.Is(err, svm.ErrSignature):
		return unverified(onchain.ReasonSignature, text)
	}
	return &onchain.Refusal{Code: onchain.CodePayment, Text: text}
}

// idName encodes the names of payments: 26 characters that need no escapes.
var idName = base32.StdEncoding.WithPadding(base32.NoPadding)

func (o *Order) payment(identity string, same [32]byte, expires time.Time) (*onchain.Payment, error) {
	text, err := o.encode()
	if err != nil {
		return nil, fmt.Errorf("cannot write the payment down: %w", err)
	}
	sum := sha256.Sum256([]byte(identity))
	return &onchain.Payment{ID: "pay_" + strings.ToLower(idName.EncodeToString(sum[:])[:26]), Same: same,
		Network: o.Network, Asset: o.Asset, Wallet: o.Payer, Units: o.Units, Amount: config.Nano(o.Units) * NanoPerUnit,
		Order: text, Expires: expires}, nil
}

func unverified(reason, text string) *onchain.Refusal {
	return &onchain.Refusal{Code: onchain.CodeVerification, Reason: reason, Text: text}
}
