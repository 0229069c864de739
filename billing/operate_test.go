package billing

import (
	"net/netip"

	"farebox/billing/report"
	"farebox/billing/store"
)

// Operations as calls on the ledger, for tests that call them often.

func (l *Ledger) CreateAccount(name string) (Account, error) { return Do(l, CreateAccount{Name: name}) }

func (l *Ledger) ListAccounts() ([]AccountInfo, error) { return All(l, ListAccounts{}) }

func (l *Ledger) Credit(account string, currency Currency, amount Nano, ref, memo string) (Nano, bool, error) {
	done, err := Do(l, CreditAccount{account, currency, amount, ref, memo})
	return done.Balance, done.Applied, err
}

func (l *Ledger) Refund(account string, currency Currency, amount Nano, ref, memo string) (Nano, bool, error) {
	done, err := Do(l, RefundAccount{account, currency, amount, ref, memo})
	return done.Balance, done.Applied, err
}

func (l *Ledger) Debit(account string, currency Currency, amount Nano, ref, reason string, mayOwe bool) (AccountInfo, bool, error) {
	done, err := Do(l, DebitAccount{CreditAccount{account, currency, amount, ref, reason}, mayOwe})
	return done.Info, done.Applied, err
}

func (l *Ledger) SetAllowance(account string, daily Nano) (Account, error) {
	return Do(l, SetAllowance{account, daily})
}

func (l *Ledger) SetStatus(account string, s store.AccountStatus) (AccountInfo, error) {
	switch s {
	case store.AccountSuspended:
		return Do(l, SuspendAccount{account})
	case store.AccountClosed:
		return Do(l, CloseAccount{account, true})
	}
	return Do(l, ResumeAccount{account})
}

func (l *Ledger) CreateKey(n NewKey) (KeyInfo, string, error) {
	k, err := Do(l, CreateKey{n})
	return k.Info, k.Secret, err
}

func (l *Ledger) Keys(account string) ([]KeyInfo, error) { return All(l, ListKeys{Account: account}) }

func (l *Ledger) RevokeKey(id string) error {
	_, err := Do(l, RevokeKey{id})
	return err
}

func (l *Ledger) UsageReport(q report.SumQuery) ([]report.Sum, error) { return Do(l, ReportUsage{q}) }

func (l *Ledger) Statement(q report.StatementQuery) (*report.Statement, error) {
	return Do(l, ReadStatement{q})
}

func (l *Ledger) AddReview(n NewReview) (ReviewInfo, error) { return Do(l, AddReview{n}) }

func (l *Ledger) HideReview(id string, hide bool) (ReviewInfo, error) {
	return Do(l, HideReview{id, hide})
}

func (l *Ledger) LinkWallet(address, account, by string) (WalletLink, error) {
	return Do(l, LinkWallet{address, account, by})
}

func (l *Ledger) UnlinkWallet(address string) error {
	_, err := Do(l, UnlinkWallet{address})
	return err
}

func (l *Ledger) Verify() (store.Report, error) { return Do(l, Verify{}) }

func (l *Ledger) Backup(path string) (BackupInfo, error) { return Do(l, BackUp{path}) }

func (l *Ledger) WalletKey(address string) (*Key, error) {
	return l.Wallets().Key(netip.Addr{}, address)
}

func (l *Ledger) listReviews(slug string) ([]ReviewInfo, error) {
	return All(l, ListReviews{Slug: slug})
}

func (l *Ledger) ReleaseNode(node string) error {
	_, err := Do(l, ReleaseNode{node})
	return err
}
