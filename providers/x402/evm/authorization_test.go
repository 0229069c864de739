package evm

import (
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"farebox/providers/wallet"
)

func address(t testing.TB, s string) wallet.Address {
	t.Helper()
	a, err := wallet.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// base is USDC on Base.
func base(t testing.TB) *Domain {
	return &Domain{"USD Coin", "2", big.NewInt(8453), address(t, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")}
}

// This signs an authorization as viem does, to the byte.
func TestDigestIsThatOfViem(t *testing.T) {
	separator := base(t).Separator()
	if got := hex.EncodeToString(separator[:]); got !=
		"02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f" {
		t.Errorf("the domain of USDC on Base is %s", got)
	}
	a := Authorization{From: address(t, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
		To: address(t, "0x2670B922ef37C7Df47158725C0CC407b5382293F"), Value: NumberOf(7_000_000),
		ValidBefore: NumberOf(1795217376), Nonce: Word([]byte(strings.Repeat("\xab", 32)))}
	digest := a.Digest(separator)
	if got := hex.EncodeToString(digest[:]); got !=
		"7d17ea3302d0b371a9ff1b92e32884cbdf3a38bb2577e2e9c3e33609e84d4bc0" {
		t.Errorf("the digest is %s", got)
	}
	signature, _ := ParseHex("0xcd565a36cd9e8a9ef78eab8286c0785f7376031bff635d353cbf48a7eef6a45c33c6a6d1577279acb7738d"+
		"00526a5687bb73079946f9a3a6953de10e81fe35921b", 65)
	if who, err := wallet.Recover(signature, digest); err != nil || who != a.From {
		t.Errorf("it is signed by %v (%v)", who, err)
	}
}

// Selectors and topics are those of the deployed token.
func TestCallsAreThoseOfTheToken(t *testing.T) {
	for text, got := range map[string][4]byte{
		"authorizationState(address,bytes32)": authorizationState, "balanceOf(address)": balanceOf,
		"DOMAIN_SEPARATOR()": domainSeparator, "decimals()": decimals, "isValidSignature(bytes32,bytes)": isValidSignature,
	} {
		if sum := wallet.Keccak([]byte(text)); [4]byte(sum[:4]) != got {
			t.Errorf("%s is called with %x", text, got)
		}
	}
	for want, got := range map[string]Word{
		"98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5": AuthorizationUsed,
		"1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81": AuthorizationCanceled,
		"ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef": Transfer,
	} {
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("a topic is %x, and not %s", got, want)
		}
	}
	// As viem's encodeFunctionData has it: the bytes begin at 64, and are filled up.
	data := SignedCall(Word{31: 1}, []byte{0xaa, 0xbb})
	if want := "1626ba7e" + strings.Repeat("0", 63) + "1" + strings.Repeat("0", 62) + "40" + strings.Repeat("0", 63) +
		"2" +
		"aabb" + strings.Repeat("0", 60); hex.EncodeToString(data) != want {
		t.Errorf("isValidSignature is called with %x", data)
	}
	if len(SignedCall(Word{}, make([]byte, 64))) != 4+3*32+64 {
		t.Error("a signature that fills its words is filled up again")
	}
}

// A number has one spelling.
func TestNumbersHaveOneSpelling(t *testing.T) {
	top := new(big.Int).Lsh(big.NewInt(1), 256)
	for _, bad := range []string{"", "00", "01", "+1", "-1", "1.0", "1e3", " 1", "1 ", "0x1", "1_0", "١", top.String(),
		strings.Repeat("9", 78), strings.Repeat("1", 79)} {
		if _, err := ParseNumber(bad); err == nil {
			t.Errorf("%q is read as a number", bad)
		}
	}
	for _, good := range []string{"0", "1", "5000000", new(big.Int).Sub(top, big.NewInt(1)).String()} {
		if n, err := ParseNumber(good); err != nil || n.String() != good {
			t.Errorf("%q is read as %v (%v)", good, n, err)
		}
	}
	if _, fits := WordNumber(Word{0: 1}).Int(); fits {
		t.Error("2^248 fits into 63 bits")
	}
}

// A signature with the making of its contract is known by its end.
func TestWrappedSignaturesAreKnown(t *testing.T) {
	end := []byte(strings.Repeat("\x64\x92", 16))
	if !IsWrapped(append(make([]byte, 100), end...)) || !IsWrapped(end) {
		t.Error("a wrapped signature is not known")
	}
	if IsWrapped(end[1:]) || IsWrapped(append(end, 0)) || IsWrapped(nil) || IsWrapped(make([]byte, 65)) {
		t.Error("a bare signature passes for a wrapped one")
	}
}
