package facilitator

import (
	"strings"
	"testing"

	"farebox/config/onchain"
)

// Answers are read by their members, whatever their status; an unclear answer counts as none.
func TestAnswersAreReadByTheirMembers(t *testing.T) {
	const hash = "0xabc"
	for name, c := range map[string]struct {
		settle bool
		status int
		body   string
		want   onchain.Reply
		fails  bool
	}{
		"valid":                 {false, 200, `{"isValid":true,"payer":"0x1"}`, onchain.Reply{OK: true}, false},
		"valid with status 400": {false, 400, `{"isValid":true}`, onchain.Reply{OK: true}, false},
		"invalid": {false, 200, `{"isValid":false,"invalidReason":"insufficient_funds"}`,
			onchain.Reply{Reason: "insufficient_funds"}, false},
		"invalid with status 402": {false, 402, `{"invalidReason":"x","isValid":false}`, onchain.Reply{Reason: "x"}, false},
		"invalid and broken": {false, 500, `{"isValid":false,"invalidReason":"x"}`, onchain.Reply{Reason: "x", Unclear: true},
			false},
		"invalid for no reason": {false, 200, `{"isValid":false}`, onchain.Reply{Reason: "no_reason_given"}, false},
		"only a message": {false, 200, `{"isValid":false,"invalidReason":null,"invalidMessage":"too \u0007 late\n"}`,
			onchain.Reply{Reason: "too  late"}, false},
		"a long reason": {false, 200, `{"isValid":false,"invalidReason":"` + strings.Repeat("x", 9999) + `"}`,
			onchain.Reply{Reason: strings.Repeat("x", maxReason)}, false},
		"validity as text": {false, 200, `{"isValid":"true"}`, onchain.Reply{}, true},
		"validity missing": {false, 200, `{"valid":true}`, onchain.Reply{}, true},
		"validity null":    {false, 200, `{"isValid":null}`, onchain.Reply{}, true},
		"validity twice":   {false, 200, `{"isValid":false,"isValid":true}`, onchain.Reply{}, true},
		"validity in caps": {false, 200, `{"isvalid":true}`, onchain.Reply{}, true},
		"settle's answer":  {false, 200, `{"success":true}`, onchain.Reply{}, true},
		"a page":           {false, 502, `<html>`, onchain.Reply{}, true},
		"nothing":          {false, 200, ``, onchain.Reply{}, true},
		"a list":           {false, 200, `[{"isValid":true}]`, onchain.Reply{}, true},
		"something behind": {false, 200, `{"isValid":true} x`, onchain.Reply{}, true},
		"a bad escape":     {false, 200, `{"isValid":true,"payer":"\x"}`, onchain.Reply{}, true},
		"too deep": {false, 200, `{"isValid":true,"x":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}`,
			onchain.Reply{}, true},
		"too long": {false, 200, `{"isValid":true,"x":"` + strings.Repeat("a", maxAnswer) + `"}`, onchain.Reply{},
			true},
		"settled": {true, 200, `{"success":true,"transaction":"0xabc"}`, onchain.Reply{OK: true,
			Transaction: hash}, false},
		"settled somewhere": {true, 200, `{"success":true}`, onchain.Reply{OK: true}, false},
		"settled, vast": {true, 200, `{"success":true,"transaction":"` + strings.Repeat("a", 200) + `"}`,
			onchain.Reply{OK: true}, false},
		"settled, control": {true, 200, `{"success":true,"transaction":"0x\u0000"}`, onchain.Reply{OK: true}, false},
		"refused": {true, 200, `{"success":false,"errorReason":"insufficient_funds","transaction":""}`,
			onchain.Reply{Reason: "insufficient_funds"}, false},
		"pending with status 500": {true, 500, `{"success":false,"errorReason":"settlement_pending","transaction":"0xabc"}`,
			onchain.Reply{Reason: "settlement_pending", Transaction: hash, Unclear: true}, false},
		"pending with status 200": {true, 200, `{"success":false,"errorReason":"settlement_pending"}`,
			onchain.Reply{Reason: "settlement_pending", Unclear: true}, false},
		"accepted for later": {true, 202, `{"success":false,"errorReason":"x"}`, onchain.Reply{Reason: "x", Unclear: true},
			false},
		"failed with a transaction": {true, 200, `{"success":false,"errorReason":"x","transaction":"0xabc"}`,
			onchain.Reply{Reason: "x", Transaction: hash, Unclear: true}, false},
		"settled before": {true, 200, `{"success":false,"errorReason":"duplicate_settlement"}`,
			onchain.Reply{Reason: "duplicate_settlement", Unclear: true}, false},
		"timed out": {true, 200, `{"success":false,"errorReason":"settle_exact_svm_transaction_confirmation_timed_out"}`,
			onchain.Reply{Reason: "settle_exact_svm_transaction_confirmation_timed_out", Unclear: true}, false},
		"success as 1":    {true, 200, `{"success":1}`, onchain.Reply{}, true},
		"success missing": {true, 500, `{"error":"Internal Server Error"}`, onchain.Reply{}, true},
		"success twice":   {true, 200, `{"success":false,"success":true}`, onchain.Reply{}, true},
		"success escaped": {true, 200, `{"succes\u0073":true}`, onchain.Reply{}, true},
	} {
		read := readVerify
		if c.settle {
			read = readSettle
		}
		if got, err := read(c.status, []byte(c.body)); got != c.want && !c.fails || (err != nil) != c.fails {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// Version 2 of the scheme exact is supported, with its fee payers.
func TestSupportIsRead(t *testing.T) {
	s, err := readSupported(200, []byte(`{"kinds":[
		{"x402Version":1,"scheme":"exact","network":"base"},
		{"x402Version":2,"scheme":"upto","network":"eip155:1"},
		{"x402Version":2,"scheme":"exact","network":"eip155:8453","extra":null},
		{"x402Version":2,"scheme":"exact","network":"solana:a","extra":{"feePayer":"now","x":1}},
		{"x402Version":2,"scheme":"exact","network":"solana:a","extra":{"feePayer":"other"}}],
		"extensions":["bazaar"],"signers":{"eip155:*":["0x1"],"solana:*":["now","before"],"solana:a":["own"]}}`))
	if err != nil || len(s.networks) != 2 || s.networks["solana:a"] != "now" || s.simulated {
		t.Fatalf("%+v %v", s, err)
	}
	for account, want := range map[string]bool{"now": true, "before": true, "own": true, "other": false, "": false,
		"0x1": false} {
		if s.takes("solana:a", account) != want {
			t.Errorf("%q pays fees: %v", account, !want)
		}
	}
	if s.takes("solana:b", "now") {
		t.Error("fees are paid on a network that is not supported")
	}
	for _, text := range []string{`{"kinds":[],"simulated":true}`, `{"extensions":["simulated"]}`,
		`{"extensions":{"simulated":true}}`} {
		if s, err := readSupported(200, []byte(text)); err != nil || !s.simulated {
			t.Errorf("%s is not simulated: %v", text, err)
		}
	}
	for _, c := range []struct {
		status int
		body   string
	}{{500, `{"kinds":[]}`}, {200, `[]`}, {200, `{"kinds":{}}`}, {200, ``}, {200, strings.Repeat(" ", maxAnswer) + "{}"},
		{200, `{"kinds":[` + strings.Repeat(`{},`, maxKinds) + `{}]}`}} {
		if _, err := readSupported(c.status, []byte(c.body)); err == nil {
			t.Errorf("%d %.40s is taken", c.status, c.body)
		}
	}
}

// No answer makes a reader panic or keep much, and OK is set only by an answer that says so.
func FuzzAnswer(f *testing.F) {
	f.Add(200, []byte(`{"isValid":true,"success":false,"transaction":"0x1","errorReason":"a"}`))
	f.Add(500, []byte(`{"success":false,"errorReason":"settlement_pending"}`))
	f.Add(200, []byte(`{"kinds":[{"x402Version":2,"scheme":"exact","network":"a","extra":{"feePayer":"b"}}],`+
		`"signers":{"a:*":["b"]}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for name, read := range map[string]func(int, []byte) (onchain.Reply, error){"isValid": readVerify,
			"success": readSettle} {
			r, err := read(status, body)
			if err == nil && r.OK && !strings.Contains(string(body), name) || len(r.Reason) > maxReason ||
				len(r.Transaction) > maxTransaction || err == nil && !r.OK && r.Reason == "" {
				t.Fatalf("%q is read as %+v %v", body, r, err)
			}
		}
		if s, err := readSupported(status, body); err == nil && (len(s.networks) > maxKinds || len(s.signers) > maxSigners) {
			t.Fatalf("%q is kept", body)
		}
	})
}
