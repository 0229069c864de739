package wallet_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/config/onchain"
)

func decoded(header string) gjson.Result {
	b, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return gjson.Result{}
	}
	return gjson.ParseBytes(b)
}

// "I paid, and the answer did not say what I have now."
func TestACreditedPaymentAnswersTheBalance(t *testing.T) {
	s := openShop(t, paid())
	p := newPayer(t)
	r := s.pay(s.payment(p, 7_000_000))
	if r.status != 200 || r.Get("data.walletAddress").Str != p.Address().String() ||
		r.Get("data.amountCredited").Raw != "7" || r.Get("data.newBalance").Raw != "7" ||
		!strings.HasPrefix(r.Get("data.paymentId").Str, "pay_") {
		t.Errorf("answered %s", r)
	}
	for _, name := range []string{"PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"} {
		said := decoded(r.header.Get(name))
		if !said.Get("success").Bool() || said.Get("transaction").Str != "0xfeed" ||
			said.Get("network").Str != "eip155:8453" || said.Get("payer").Str != p.Address().String() {
			t.Errorf("%s says %s", name, said.Raw)
		}
	}
}

// Each ending of a payment has an answer of its own: a 402 if another payment would help,
// and never if the first may still be taken.
func TestEveryEndingHasItsAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		client *client
		status int
		code   string
		reason string
	}{
		{"the chain has the nonce", &client{refuse: &onchain.Refusal{Code: "PAYMENT_VERIFICATION_FAILED",
			Reason: "nonce_already_used"}}, 402, "PAYMENT_VERIFICATION_FAILED", "nonce_already_used"},
		{"it is not covered", &client{refuse: &onchain.Refusal{Code: "PAYMENT_VERIFICATION_FAILED",
			Reason: "insufficient_funds"}}, 402, "PAYMENT_VERIFICATION_FAILED", "insufficient_funds"},
		{"nobody can be asked", &client{away: errors.New("no route")}, 503, "X402_UNAVAILABLE", ""},
		{"the facilitator refuses", &client{settle: onchain.Reply{Reason: "execution_reverted"}, state: onchain.Open}, 402,
			"SETTLEMENT_FAILED", "execution_reverted"},
		{"the nonce went elsewhere", &client{settle: onchain.Reply{OK: true}, state: onchain.Spent}, 402,
			"PAYMENT_VERIFICATION_FAILED", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openShop(t, c.client)
			r := s.pay(s.payment(newPayer(t), 5_000_000))
			if r.status != c.status || r.Get("error").Str != c.code || r.Get("message").Str == "" {
				t.Errorf("answered %s", r)
			}
			if c.reason != "" && r.Get("details.reason").Str != c.reason {
				t.Errorf("the reason is %s", r.Get("details").Raw)
			}
			if r.status == 402 && (r.Get("accepts.0.amount").Str != "5000000" || r.Get("x402Version").Int() != 2 ||
				r.Get("resource.url").Str != "https://shop.test/api/v1/x402/top-up" ||
				decoded(r.header.Get("PAYMENT-REQUIRED")).Get("accepts").Raw != r.Get("accepts").Raw ||
				decoded(r.header.Get("PAYMENT-RESPONSE")).Get("success").Raw != "false") {
				t.Errorf("it does not name an accepted payment: %s, %v", r, r.header)
			}
			if r.status >= 500 && r.header.Get("Retry-After") == "" {
				t.Error("it does not say when to try again")
			}
		})
	}
}

// "I pressed the button twice."
func TestASecondSubmissionWhileTheFirstIsSettled(t *testing.T) {
	d := paid()
	d.proceed = make(chan struct{})
	s := openShop(t, d)
	payment, first := s.payment(newPayer(t), 5_000_000), make(chan reply, 1)
	go func() { first <- s.pay(payment) }()
	<-d.proceed
	if r := s.pay(payment); r.status != 409 || r.Get("error").Str != "PAYMENT_IN_PROGRESS" ||
		r.header.Get("Retry-After") == "" {
		t.Errorf("the second is answered %s", r)
	}
	d.proceed <- struct{}{}
	if r := <-first; r.status != 200 {
		t.Errorf("the first is answered %s", r)
	}
	if r := s.pay(payment); r.status != 200 {
		t.Errorf("a repeat afterwards is answered %s", r)
	}
}

func TestTopUpsOfAnAddressAreLimited(t *testing.T) {
	s := openShop(t, paid(), "top_up_per_ip: 2")
	for range 2 {
		if r := s.tell("POST", "/x402/top-up", ""); r.status != 402 {
			t.Fatalf("answered %s", r)
		}
	}
	r := s.pay(s.payment(newPayer(t), 5_000_000))
	if r.status != 429 || r.Get("error").Str != "RATE_LIMIT_EXCEEDED" || r.header.Get("Retry-After") == "" {
		t.Errorf("the third is answered %s", r)
	}
	if s.client.prepared != 0 {
		t.Error("a facilitator or a chain was asked about it")
	}
}

// optional is for shops that check a key if one is sent, and do not need it.
func TestKeysBesideAPayment(t *testing.T) {
	for _, c := range []struct {
		auth, key string
		status    int
	}{
		{"bearer", "", 401}, {"bearer", "wrong", 401}, {"bearer", "right", 402},
		{"optional", "", 402}, {"optional", "wrong", 401}, {"optional", "right", 402},
		{"none", "", 402}, {"none", "wrong", 402},
	} {
		s := openShop(t, paid(), "top_up_auth: "+c.auth)
		var headers []string
		switch c.key {
		case "right":
			headers = []string{"Authorization", "Bearer " + s.Secret}
		case "wrong":
			headers = []string{"Authorization", "Bearer wrong"}
		}
		if r := s.tell("POST", "/x402/top-up", "", headers...); r.status != c.status {
			t.Errorf("%s with %q key: answered %s, not %d", c.auth, c.key, r, c.status)
		}
	}
}

// A member in the body is an error of the client, which may mean it as an amount.
func TestTheBodyOfATopUpIsEmpty(t *testing.T) {
	s := openShop(t, paid())
	for body, status := range map[string]int{"": 402, "{}": 402, `{"amount":5}`: 400, "[]": 400, "x": 400} {
		if r := s.tell("POST", "/x402/top-up", body); r.status != status {
			t.Errorf("%q is answered %s", body, r)
		}
	}
}

// A payer whose payment is not used must get an answer that says so, and a header that
// the route ignores must cost nothing.
func TestAPaymentOnAnotherRouteIsRefused(t *testing.T) {
	s := openShop(t, paid())
	p := newPayer(t)
	for _, name := range []string{"PAYMENT-SIGNATURE", "X-402-Payment", "X-PAYMENT"} {
		r := s.tell("POST", "/chat/completions", chatBody, name, s.payment(p, 5_000_000), "Authorization",
			"Bearer "+s.Secret)
		if r.status != 400 || r.Get("code").Str != "PAYMENT_HEADER_NOT_ACCEPTED" {
			t.Errorf("%s: answered %s", name, r)
		}
	}
	if s.Balance() != 1_000_000_000_000 || s.client.prepared != 0 {
		t.Error("something was charged, or asked")
	}
}

// The operator's log names payments, and contains nothing that pays.
func TestTheLogNamesPaymentsAndHoldsNoHeader(t *testing.T) {
	s := openShop(t, paid())
	p := newPayer(t)
	payment, sign := s.payment(p, 5_000_000), signIn(p, "/chat/completions")
	r := s.pay(payment)
	s.tell("POST", "/chat/completions", chatBody, "SIGN-IN-WITH-X", sign)
	log := strings.Join(s.Log.Lines(), "\n")
	if !strings.Contains(log, r.Get("data.paymentId").Str) || !strings.Contains(log, `"outcome":"credited"`) {
		t.Errorf("the payment is not there:\n%s", log)
	}
	for _, secret := range []string{payment[40:90], sign[40:90],
		decoded(payment).Get("payload.signature").Str, decoded(sign).Get("signature").Str} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}
