package svm

import (
	"encoding/binary"

	"farebox/providers/wallet"
)

// appendCount appends a shortvec.
func appendCount(dst []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// AppendMessage appends the signed message, of version 0, from the fields.
func (t *Transaction) AppendMessage(dst []byte) []byte {
	dst = append(dst, versioned, byte(t.Signers), byte(t.ReadonlySigners), byte(t.ReadonlyOthers))
	dst = appendCount(dst, len(t.Keys))
	for _, key := range t.Keys {
		dst = append(dst, key[:]...)
	}
	dst = append(dst, t.Blockhash[:]...)
	dst = appendCount(dst, len(t.Instructions))
	for _, i := range t.Instructions {
		dst = appendCount(append(dst, byte(i.Program)), len(i.Accounts))
		for _, at := range i.Accounts {
			dst = append(dst, byte(at))
		}
		dst = append(appendCount(dst, len(i.Data)), i.Data...)
	}
	return appendCount(dst, 0)
}

// AppendWire appends the transaction as it is sent: signatures, then Message.
func (t *Transaction) AppendWire(dst []byte) []byte {
	dst = appendCount(dst, len(t.Signatures))
	for _, s := range t.Signatures {
		dst = append(dst, s[:]...)
	}
	return append(dst, t.Message...)
}

// Draft is a payment that is still to be signed.
type Draft struct {
	FeePayer, Payer, PayTo, Mint wallet.Address
	Token2022                    bool
	Units                        uint64
	Blockhash                    [32]byte
	Memo                         string // makes two payments of the same moment differ
}

const (
	draftLimit = 60_000
	draftPrice = 1
)

// Transaction is the draft as wallets make it, unsigned.
func (d *Draft) Transaction() *Transaction {
	program := token
	if d.Token2022 {
		program = token2022
	}
	of := wallet.SolanaAddress(program)
	source, to := Associated(d.Payer, of, d.Mint), Associated(d.PayTo, of, d.Mint)
	limit := binary.LittleEndian.AppendUint32([]byte{setLimit}, draftLimit)
	price := binary.LittleEndian.AppendUint64([]byte{setPrice}, draftPrice)
	amount := append(binary.LittleEndian.AppendUint64([]byte{transfer}, d.Units), decimals)
	t := &Transaction{Signers: 2, ReadonlySigners: 1, ReadonlyOthers: 4, Blockhash: d.Blockhash,
		Signatures: make([][signatureSize]byte, 2),
		Keys: [][keySize]byte{d.FeePayer.Key(), d.Payer.Key(), source.Key(), to.Key(), computeBudget, program, memo,
			d.Mint.Key()},
		Instructions: []Instruction{{Program: 4, Data: limit}, {Program: 4, Data: price},
			{Program: 5, Accounts: []int{2, 7, 3, 1}, Data: amount}, {Program: 6, Data: []byte(d.Memo)}}}
	t.Message = t.AppendMessage(nil)
	return t
}
