package fair

import (
	"context"
	"encoding/binary"
	"net/netip"
)

// Owner is the customer whose share a piece of work uses. The zero Owner is an
// unpaid caller without an address.
type Owner struct {
	// Account is the number of a paid account, or 0 for unpaid callers.
	Account uint64
	// Net is the IPv4 address or the IPv6 /64 of an unpaid caller, or 0.
	Net uint64
}

// Operator owns the gateway's own work, such as jobs and checks in the background.
var Operator = Owner{Account: 1<<64 - 1}

// Paid is the owner of an account that was credited at least once.
func Paid(account uint64) Owner { return Owner{Account: account} }

// Unpaid is the owner of a request from an address without a paid account.
func Unpaid(from netip.Addr) Owner {
	switch from = from.Unmap(); {
	case from.Is4():
		b := from.As4()
		// No routed /64 begins with these bits: 0000::/8 is reserved.
		return Owner{Net: 0xffff<<32 | uint64(binary.BigEndian.Uint32(b[:]))}
	case from.Is6():
		b := from.As16()
		return Owner{Net: binary.BigEndian.Uint64(b[:8])}
	}
	return Owner{}
}

type ownerKey struct{}

// With makes a context whose work belongs to an owner.
func With(ctx context.Context, o Owner) context.Context { return context.WithValue(ctx, ownerKey{}, o) }

// Of is the owner that With put into ctx. Without one it is the zero Owner.
func Of(ctx context.Context) Owner {
	o, _ := ctx.Value(ownerKey{}).(Owner)
	return o
}
