package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"farebox/config"
)

// Balance is an operator's remaining balance at a provider.
type Balance struct {
	Currency string `json:"currency"`
	Amount   string `json:"amount"` // decimal
}

// BalanceAt asks an upstream of a config for the operator's balance there, over its connection settings. Only
// OpenRouter and DeepSeek report it. Errors quote nothing of the upstream.
func BalanceAt(ctx context.Context, cfg *config.Config, upstream string) ([]Balance, error) {
	for i := range cfg.Upstreams {
		if u := &cfg.Upstreams[i]; u.Name == upstream {
			var list []Balance
			_, err := inTime(ctx, func(status *int) (string, error) {
				found, err := balanceOf(u, status)
				if err == nil {
					list = found
				}
				return "", err
			}, new(int))
			if err != nil {
				return nil, err // list may still be written
			}
			return list, nil
		}
	}
	return nil, errors.New("only upstreams of models can tell a balance")
}

var errNoBalance = errors.New("the provider tells no balance, or none that farebox can read")

// balanceForms are the providers' endpoints for a balance. OpenRouter shows credits only to management keys, and to
// others the rest of the key's limit. DeepSeek has it beside its API.
var balanceForms = []struct {
	path string
	root bool // the path begins at the root of the host
	read func([]byte) ([]Balance, error)
}{
	{"/credits", false, readCredits},
	{"/key", false, readKeyLimit},
	{"/user/balance", true, readBalances},
}

func balanceOf(u *config.Upstream, status *int) ([]Balance, error) {
	a, done, err := askerOf(u, status)
	if err != nil {
		return nil, err
	}
	defer done()
	base := a.base
	for _, form := range balanceForms {
		a.base = base
		if form.root {
			a.base = strings.TrimSuffix(strings.TrimSuffix(base, "/v1"), "/beta")
		}
		code, body, err := a.get("GET", form.path, "")
		if err != nil {
			return nil, err
		}
		if code == 401 {
			return nil, errors.New("the provider refuses the credential (401)")
		}
		if code != 200 {
			continue
		}
		if list, err := form.read(body); err == nil {
			return list, nil
		}
	}
	return nil, errNoBalance
}

func readCredits(body []byte) ([]Balance, error) {
	var answer struct {
		Data struct {
			Credits json.Number `json:"total_credits"`
			Usage   json.Number `json:"total_usage"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, errNoBalance
	}
	credits, err := amountOf(string(answer.Data.Credits))
	usage, err2 := amountOf(string(answer.Data.Usage))
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	return []Balance{{"USD", decimalOf(credits.Sub(credits, usage))}}, nil
}

func readKeyLimit(body []byte) ([]Balance, error) {
	var answer struct {
		Data struct {
			Left json.Number `json:"limit_remaining"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, errNoBalance
	}
	left, err := amountOf(string(answer.Data.Left))
	if err != nil {
		return nil, err
	}
	return []Balance{{"USD", decimalOf(left)}}, nil
}

// mostBalances bounds the currencies of an answer.
const mostBalances = 8

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

func readBalances(body []byte) (list []Balance, err error) {
	var answer struct {
		Infos []struct {
			Currency string `json:"currency"`
			Total    string `json:"total_balance"`
		} `json:"balance_infos"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Infos) == 0 || len(answer.Infos) > mostBalances {
		return nil, errNoBalance
	}
	for _, info := range answer.Infos {
		total, err := amountOf(info.Total)
		if err != nil || !currencyForm.MatchString(info.Currency) {
			return nil, errNoBalance
		}
		list = append(list, Balance{info.Currency, decimalOf(total)})
	}
	return list, nil
}

// amountForm bounds numbers to lengths that are cheap to read.
var amountForm = regexp.MustCompile(`^-?[0-9]{1,12}(\.[0-9]{1,24})?([eE]-[0-9]{1,2})?$`)

func amountOf(text string) (*big.Rat, error) {
	if !amountForm.MatchString(text) {
		return nil, errNoBalance
	}
	amount, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("%w: the amount is not a decimal", errNoBalance)
	}
	return amount, nil
}

// decimalOf is an amount with at most nine decimals.
func decimalOf(amount *big.Rat) string {
	text := strings.TrimRight(strings.TrimRight(amount.FloatString(9), "0"), ".")
	if text == "-0" || text == "" {
		return "0"
	}
	return text
}
