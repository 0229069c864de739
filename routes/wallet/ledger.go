package wallet

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"time"

	"farebox/billing"
	"farebox/billing/report"
	"farebox/config/fair"
	"farebox/providers/wallet"
	"farebox/routes"
)

// owner returns the wallet of the path, which must have signed the request, and its key.
// The checks have the order of addendum 14.5: the address, the signature, whether both are
// of the same wallet, whether it has a ledger. Only then is a chain asked, and the request
// counted for the wallet.
func owner(c *routes.Call, limit *routes.PerMinute[string], perMinute int64) (string, *billing.Key, *routes.Error) {
	if e := offered(c); e != nil {
		return "", nil, e
	}
	text := string(c.Rest())
	asked, err := wallet.ParseAddress(text)
	if err != nil {
		return "", nil, routes.Invalid(routes.Issue{Code: "invalid_string", Path: "wallet",
			Received: routes.Excerpt([]byte(text)), Message: "wallet: the path " + err.Error() + "."})
	}
	s, e := c.ReadSignIn()
	if e != nil {
		return "", nil, e
	}
	if s.Wallet != asked {
		return "", nil, &routes.Error{Status: 403, Code: "X402_WALLET_MISMATCH", Uncounted: true,
			Message: "Another wallet has signed in than the one in the path."}
	}
	key, e := c.KeyOfWallet(asked)
	if e != nil {
		return "", nil, e
	}
	name := asked.String()
	tooMany := func() *routes.Error {
		wait := limit.Take(name, perMinute, c.Began)
		if wait <= 0 {
			return nil
		}
		return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Uncounted: true,
			Message: "Rate limit exceeded: too many requests of this wallet.", RetryAfter: max(routes.RetrySoon, wait)}
	}
	if key == nil {
		if e := tooMany(); e != nil {
			return "", nil, e
		}
		return "", nil, &routes.Error{Status: 404, Code: "NOT_FOUND", Uncounted: true,
			Message: "This wallet has no ledger here; a top-up makes one."}
	}
	if e := c.ConfirmSignIn(s); e != nil {
		return "", nil, e
	}
	if e := tooMany(); e != nil {
		return "", nil, e
	}
	return name, key, c.UseSignIn(s)
}

type balanceBody struct {
	Wallet    string       `json:"walletAddress"`
	Balance   json.Number  `json:"balanceUsd"`
	Can       bool         `json:"canConsume"`
	Minimum   json.Number  `json:"minimumTopUpUsd"`
	Suggested json.Number  `json:"suggestedTopUpUsd"`
	DIEM      *json.Number `json:"diemBalanceUsd,omitempty"`
}

// balance answers GET /x402/balance/{wallet}.
func (cp *Capability) balance(c *routes.Call) *routes.Error {
	perMinute := int64(0)
	if x := c.Config().X402; x != nil {
		perMinute = x.BalancePerWallet
	}
	name, key, e := owner(c, &cp.balances, perMinute)
	if e != nil {
		return e
	}
	has, err := reports(c, key).Balance()
	if err != nil {
		return unread(c, err)
	}
	x := c.Config().X402
	body := balanceBody{name, usd(has.Lasting()),
		has.CanConsume && has.Total() >= x.MinBalance, usd(x.MinTopUp), usd(x.SuggestedTopUp), nil}
	if has.HasDIEM {
		diem := usd(has.DIEM)
		body.DIEM = &diem
	}
	return answer(c, body)
}

// listParams are those of GET /x402/transactions/{wallet}.
var listParams = routes.Params{
	"limit":  {Kinds: routes.Number, Integer: true, Min: 1, Max: 100, Default: 50},
	"offset": {Kinds: routes.Number, Integer: true, Min: 0, Max: math.Inf(1), Default: 0},
}

type listBody struct {
	Wallet  string        `json:"walletAddress"`
	Balance json.Number   `json:"currentBalance"`
	List    []transaction `json:"transactions"`
	Page    page          `json:"pagination"`
}

type transaction struct {
	ID        string      `json:"id"`
	Amount    json.Number `json:"amount"`
	After     json.Number `json:"balanceAfter"`
	Type      string      `json:"type"`
	CreatedAt string      `json:"createdAt"`
	RequestID *string     `json:"requestId"`
	ModelID   *string     `json:"modelId"`
}

type page struct {
	Limit  int  `json:"limit"`
	Offset int  `json:"offset"`
	More   bool `json:"hasMore"`
}

// list answers GET /x402/transactions/{wallet}.
func (cp *Capability) list(c *routes.Call) *routes.Error {
	perMinute := int64(0)
	if x := c.Config().X402; x != nil {
		perMinute = x.TransactionsPerWallet
	}
	q := c.Query()
	limit, offset := int(q.Integer("limit")), int(q.Integer("offset"))
	if e := q.Refusal(); e != nil && c.Config().X402 != nil {
		return e
	}
	name, key, e := owner(c, &cp.transactions, perMinute)
	if e != nil {
		return e
	}
	found, err := reports(c, key).Transactions(limit, offset)
	if errors.Is(err, report.ErrTooDeep) {
		return routes.Invalid(routes.Issue{Code: "too_big", Path: "offset", Message: "offset: " + err.Error() + "."})
	} else if err != nil {
		return unread(c, err)
	}
	body := listBody{name, usd(found.Balance), make([]transaction, len(found.List)), page{limit, offset, found.More}}
	for i := range found.List {
		body.List[i] = shown(&found.List[i])
	}
	return answer(c, body)
}

func shown(t *report.Transaction) transaction {
	s := transaction{ID: t.ID, Amount: usd(t.Amount), After: usd(t.BalanceAfter), Type: t.Type,
		CreatedAt: time.UnixMicro(t.AtUs).UTC().Format("2006-01-02T15:04:05.000Z")}
	if t.Request != nil {
		id := hex.EncodeToString(t.Request[:])
		s.RequestID = &id
	}
	if t.Model != "" {
		s.ModelID = &t.Model
	}
	return s
}

// reports are those of the account of a wallet that has signed in.
func reports(c *routes.Call, key *billing.Key) report.Account {
	owner := c.Owner()
	if key.Account.Paid() {
		owner = fair.Paid(key.Account.Number())
	}
	return c.Accounts().Reports(key.Account).For(owner)
}

// unread is the answer to an error of the store.
func unread(c *routes.Call, err error) *routes.Error {
	if errors.Is(err, fair.ErrFull) {
		return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Uncounted: true, RetryAfter: routes.RetrySoon,
			Message: "Rate limit exceeded: too many requests for ledgers are waiting at the same time; please retry."}
	}
	c.Logger().Error().Err(err).Bytes("request_id", c.ID[:]).Msg("cannot read the ledger of a wallet")
	if errors.Is(err, report.ErrTimeout) {
		return &routes.Error{Status: 504, Code: "REQUEST_TIMEOUT", Message: "The query took too long; please retry."}
	}
	return &routes.Error{Status: 503, Message: "The ledger cannot be read right now; please retry.",
		RetryAfter: routes.RetrySoon}
}
