package chain

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"
)

// This file reads transactions of Solana.

// Programs that payments use.
const (
	TokenProgram     = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
	ataProgram       = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
	versionZero      = 0x80
	transferChecked  = 12
	mostTransaction  = 1232
	keyBytes         = 32
	signatureOnCurve = 64
)

var errMessage = errors.New("invalid_exact_svm_payload_transaction")

// message is a transaction of version 0.
type message struct {
	signatures   [][]byte
	body         []byte // the signed bytes
	signers      int
	keys         []string
	blockhash    string
	instructions []instruction
}

type instruction struct {
	program  string
	accounts []string
	data     []byte
}

// reader takes a transaction apart; once it failed it gives nothing more.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.b) {
		r.failed = true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() int {
	if b := r.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

// count is a number of one to three bytes, seven bits each.
func (r *reader) count() int {
	n := 0
	for shift := 0; shift < 21; shift += 7 {
		b := r.byte()
		n |= b & 0x7f << shift
		if b < 0x80 {
			return n
		}
	}
	r.failed = true
	return 0
}

func readMessage(wire []byte) (*message, error) {
	if len(wire) > mostTransaction {
		return nil, errMessage
	}
	r := &reader{b: wire}
	m := &message{}
	for range r.count() {
		m.signatures = append(m.signatures, r.take(signatureOnCurve))
	}
	m.body = r.b
	if r.byte() != versionZero {
		return nil, errMessage
	}
	m.signers = r.byte()
	r.take(2)
	for range r.count() {
		m.keys = append(m.keys, base58.Encode(r.take(keyBytes)))
	}
	m.blockhash = base58.Encode(r.take(keyBytes))
	for range r.count() {
		var i instruction
		i.program = m.key(r, r.byte())
		for range r.count() {
			i.accounts = append(i.accounts, m.key(r, r.byte()))
		}
		i.data = r.take(r.count())
		if r.failed {
			break
		}
		m.instructions = append(m.instructions, i)
	}
	if tables := r.count(); r.failed || tables != 0 || len(r.b) != 0 || m.signers != len(m.signatures) ||
		m.signers > len(m.keys) {
		return nil, errMessage
	}
	return m, nil
}

func (m *message) key(r *reader, i int) string {
	if i >= len(m.keys) {
		r.failed = true
		return ""
	}
	return m.keys[i]
}

// signedBy says whether a signer's signature is in its place.
func (m *message) signedBy(i int) bool {
	key, err := base58.Decode(m.keys[i])
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, m.body, m.signatures[i])
}

// transfer is the one TransferChecked of a payment.
func (m *message) transfer() (source, mint, to, authority string, units int64, err error) {
	for _, i := range m.instructions {
		if i.program != TokenProgram || len(i.data) != 10 || i.data[0] != transferChecked || len(i.accounts) < 4 {
			continue
		}
		if authority != "" {
			return "", "", "", "", 0, errMessage
		}
		source, mint, to, authority = i.accounts[0], i.accounts[1], i.accounts[2], i.accounts[3]
		units = int64(binary.LittleEndian.Uint64(i.data[1:9]))
	}
	if authority == "" || units <= 0 {
		return "", "", "", "", 0, errMessage
	}
	return source, mint, to, authority, units, nil
}

// wire is the transaction with its signatures.
func (m *message) wire() []byte {
	return append(append([]byte{byte(len(m.signatures))}, bytes.Join(m.signatures, nil)...), m.body...)
}

// TokenAccount is where an owner's tokens of a mint are (an associated token account).
func TokenAccount(owner, mint string) string {
	var parts [4][]byte
	for i, text := range []string{owner, TokenProgram, mint, ataProgram} {
		b, err := base58.Decode(text)
		if err != nil {
			return ""
		}
		parts[i] = b
	}
	for bump := 255; bump >= 0; bump-- {
		sum := sha256.Sum256(bytes.Join([][]byte{parts[0], parts[1], parts[2], {byte(bump)}, parts[3],
			[]byte("ProgramDerivedAddress")}, nil))
		if _, err := new(edwards25519.Point).SetBytes(sum[:]); err != nil {
			return base58.Encode(sum[:])
		}
	}
	return ""
}
