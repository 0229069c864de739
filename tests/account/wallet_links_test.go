package account

import (
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// "My colleague's wallet spends the company's account, and made itself an administrator
// of it." An operator links and unlinks wallets beside a running gateway, on either store.
func TestLinkedWalletIsNotAnAdministrator(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	rig.OnBothStores(t, func(t *testing.T, store string) {
		g := rig.StartGatewayOn(t, store, web3Config(sim.URL, "require: none"))
		w := newWallet(t)
		company := g.NewAccount("company", "10")
		var shown struct {
			Wallet  string
			Linked  bool
			By      string `json:"linked_by"`
			Pending int
			Account struct{ Name string }
		}
		if _, err := g.TryCLI("wallet", "show", w.address); err == nil ||
			!strings.Contains(err.Error(), "never credited") {
			t.Errorf("an unknown wallet: %v", err)
		}
		for _, bad := range []string{"0x1", "company", checksummed(w.address)[:41] + "g"} {
			if _, err := g.TryCLI("wallet", "link", bad, "company"); err == nil ||
				!strings.Contains(err.Error(), "is not a wallet address") {
				t.Errorf("the wallet %s: %v", bad, err)
			}
		}
		var link struct {
			Wallet, Account, By string
			AccountID           string `json:"account_id"`
		}
		g.CLIJSON(&link, "wallet", "link", checksummed(w.address), "company", "--by", "boss")
		if link.Wallet != w.address || link.AccountID != company || link.Account != "company" || link.By != "boss" {
			t.Errorf("linked as %+v", link)
		}
		if _, err := g.TryCLI("wallet", "link", w.address, "company"); err == nil ||
			!strings.Contains(err.Error(), "unlink") {
			t.Errorf("linked twice: %v", err)
		}
		g.CLIJSON(&shown, "wallet", "show", w.address)
		if shown.Wallet != w.address || !shown.Linked || shown.Account.Name != "company" || shown.By != "boss" {
			t.Errorf("shown as %+v", shown)
		}
		if list := string(g.CLI("wallet", "list")); !strings.Contains(list, w.address) ||
			!strings.Contains(list, "company") {
			t.Errorf("listed as %s", list)
		}

		token := web3Token(g)
		admin := strings.Replace(web3Body(w.address, w.sign(token), token, ""), "INFERENCE", "ADMIN", 1)
		if answer := g.Must(400, "POST", rig.Web3Path, "", admin, nil); !strings.Contains(string(answer), "linked") {
			t.Errorf("an ADMIN key is refused with %s", answer)
		}
		var m made
		g.Must(200, "POST", rig.Web3Path, "", web3Body(w.address, w.sign(token), token, ""), &m)
		if keys := string(g.CLI("key", "list", "--account", "company")); !strings.Contains(keys, "WALLET") ||
			!strings.Contains(keys, "Wallet "+w.address) || !strings.Contains(keys, m.Data.ID) {
			t.Errorf("the keys are\n%s", keys)
		}

		g.CLI("wallet", "unlink", w.address)
		if _, err := g.TryCLI("wallet", "unlink", w.address); err == nil ||
			!strings.Contains(err.Error(), "linked to no account") {
			t.Errorf("unlinked twice: %v", err)
		}
		if list := string(g.CLI("wallet", "list")); strings.Contains(list, w.address) {
			t.Errorf("listed as %s", list)
		}
		if _, err := g.TryCLI("wallet", "resolve", "pay_none", "credit", "--reason", "because"); err == nil ||
			!strings.Contains(err.Error(), "farebox wallet payments") {
			t.Errorf("a payment that is not there: %v", err)
		}
		if _, err := g.TryCLI("wallet", "resolve", "pay_none", "forget", "--reason", "because"); err == nil ||
			!strings.Contains(err.Error(), "expected credit or drop") {
			t.Errorf("resolved by nothing: %v", err)
		}
		if _, err := g.TryCLI("wallet", "resolve", "pay_none", "credit"); err == nil ||
			!strings.Contains(err.Error(), "reason") {
			t.Errorf("resolved without a reason: %v", err)
		}
		var payments []any
		g.CLIJSON(&payments, "wallet", "payments", "--wallet", w.address, "--pending")
		if len(payments) != 0 {
			t.Errorf("the payments are %v", payments)
		}
		var report struct {
			Payments int
			Faults   []string
		}
		g.CLIJSON(&report, "verify")
		if len(report.Faults) > 0 {
			t.Errorf("the recount finds %+v", report)
		}
	})
}
