package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/sjson"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
)

func (f *operatorFlags) keys() *cobra.Command {
	var of string
	cmd := &cobra.Command{
		Use: "list", Short: "List keys with their limits, use and expiry; their secrets are never shown again", Args: cobra.NoArgs,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			keys, err := billing.All(op, billing.ListKeys{Account: of})
			if err != nil {
				return err
			}
			const head = "ID ACCOUNT TYPE SECRET STATE PERIOD USD DIEM EXPIRES DESCRIPTION"
			return printList(f, cmd, keys, head, func(k *billing.KeyInfo) []string {
				row := []string{k.ID, k.AccountName, k.Type.String(), "…" + k.Last6, k.State()}
				return append(append(row, limitColumns(k)...), k.Description)
			})
		}),
	}
	cmd.Flags().StringVar(&of, "account", "", "only this account's keys")
	return cmd
}

// limitColumns are period, use of each limit, and expiry: 1.5/25 is 1.5 of 25.
func limitColumns(k *billing.KeyInfo) []string {
	period, usd, diem, expires := "-", "-", "-", "never"
	used := billing.KeyUsage{}
	if k.Used != nil {
		used = *k.Used
	}
	if l := k.USD(); l.Set {
		period, usd = k.Period.String(), used.USD.String()+"/"+string(l.AppendJSON(nil))
	}
	if l := k.DIEM(); l.Set {
		period, diem = k.Period.String(), used.DIEM.String()+"/"+string(l.AppendJSON(nil))
	}
	if !k.ExpiresAt.IsZero() {
		expires = k.ExpiresAt.Format(time.RFC3339)
	}
	return []string{period, usd, diem, expires}
}

func (f *operatorFlags) limits() *cobra.Command {
	var usd, diem, period, expires, privacy string
	cmd := &cobra.Command{
		Use: "limits ID", Short: "Change a key's limits, their period, its expiry and privacy",
		Args: cobra.ExactArgs(1),
		Long: `Changes the given settings only. "none" clears a limit, and "never" clears an expiry.
The key's use in its current period stays counted. The change takes effect at once here, within a second on all nodes.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := keyChange(usd, diem, period, expires, privacy)
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				k, err := billing.Do(op, billing.ChangeKey{ID: args[0], KeyChange: change})
				if err != nil {
					return err
				}
				columns := limitColumns(&k)
				limit := func(l money.Limit) string {
					if !l.Set {
						return "none"
					}
					return string(l.AppendJSON(nil))
				}
				return f.print(cmd, k, "", [][]string{
					{"id", k.ID}, {"account", k.AccountName}, {"period", k.Period.String()},
					{"limit USD", limit(k.USD())}, {"limit DIEM", limit(k.DIEM())},
					{"expires", columns[3]}, {"privacy", k.Privacy.String()},
				})
			})
		},
	}
	cmd.Flags().StringVar(&usd, "usd", "", "consumption limit in USD and bundled credits a period, or none")
	cmd.Flags().StringVar(&diem, "diem", "", "consumption limit in DIEM a period, or none")
	cmd.Flags().StringVar(&period, "period", "", "EPOCH (UTC day), MONTH or LIFETIME")
	cmd.Flags().StringVar(&expires, "expires", "", "RFC 3339 time or YYYY-MM-DD, or never")
	cmd.Flags().StringVar(&privacy, "privacy", "", "ALL, PRIVATE_TEXT or PRIVATE_ONLY")
	return positiveAmounts(cmd)
}

func keyChange(usd, diem, period, expires, privacy string) (c billing.KeyChange, err error) {
	for _, l := range []struct {
		flag, text string
		into       **money.Limit
	}{{"--usd", usd, &c.USD}, {"--diem", diem, &c.DIEM}} {
		switch {
		case l.text == "":
		case strings.EqualFold(l.text, "none"):
			*l.into = &money.Limit{}
		default:
			v, err := money.ParseLimit(l.text)
			if err != nil {
				return c, fmt.Errorf("cannot read %s %q: it %w; write it as 25 or 0.5, or none", l.flag, l.text, err)
			}
			*l.into = &v
		}
	}
	if period != "" {
		p, err := store.ParsePeriod(period)
		if err != nil {
			return c, err
		}
		c.Period = &p
	}
	if expires != "" {
		at := time.Time{}
		if !strings.EqualFold(expires, "never") {
			if at, err = day(expires); err != nil {
				if at, err = time.Parse(time.RFC3339, expires); err != nil {
					return c, fmt.Errorf("cannot read --expires %q: write 2027-01-31 or 2027-01-31T12:00:00Z, or never",
						expires)
				}
			}
			if !at.After(time.Now()) {
				return c, fmt.Errorf("cannot use --expires %s: it is past; to end a key at once use: farebox key "+
					"revoke ID", expires)
			}
		}
		c.ExpiresAt = &at
	}
	if privacy != "" {
		p, err := store.ParseModelPrivacy(privacy)
		if err != nil {
			return c, err
		}
		c.Privacy = &p
	}
	if c == (billing.KeyChange{}) {
		return c, errors.New("nothing to change: give --usd, --diem, --period, --expires or --privacy")
	}
	return c, nil
}

func day(text string) (time.Time, error) { return time.Parse(time.DateOnly, text) }

func keyCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{Use: "key", Short: "Create, list, limit and revoke API keys; the server may be running"}
	f.register(cmd)

	var account, typ, description, expires, limitUSD, limitDIEM, period string
	create := &cobra.Command{
		Use: "create --account ACCOUNT", Short: "Create a key; its secret is printed once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := NewKey(account, typ, description, expires, limitUSD, limitDIEM, period)
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				created, err := billing.Do(op, billing.CreateKey{NewKey: k})
				if err != nil {
					return err
				}
				info, secret := created.Info, created.Secret
				if f.json {
					raw, err := json.Marshal(info)
					if err == nil {
						raw, err = sjson.SetBytes(raw, "apiKey", secret)
					}
					if err != nil {
						return err
					}
					return f.print(cmd, json.RawMessage(raw), "", nil)
				}
				return f.print(cmd, nil, "", [][]string{{"id", info.ID}, {"type", info.Type.String()},
					{"apiKey", secret}, {"", "(shown this once)"}})
			})
		},
	}
	create.Flags().StringVar(&account, "account", "", "name or id of the account")
	create.Flags().StringVar(&typ, "type", "INFERENCE", "INFERENCE or ADMIN")
	create.Flags().StringVar(&description, "description", "", "description of the key, at most 64 characters")
	create.Flags().StringVar(&expires, "expires", "", "RFC 3339 time or YYYY-MM-DD; default: never")
	create.Flags().StringVar(&limitUSD, "limit-usd", "", "consumption limit in USD per period")
	create.Flags().StringVar(&limitDIEM, "limit-diem", "", "consumption limit in DIEM per period")
	create.Flags().StringVar(&period, "limit-period", "EPOCH", "EPOCH (UTC day), MONTH or LIFETIME")
	_ = create.MarkFlagRequired("account")

	revoke := &cobra.Command{
		Use: "revoke ID", Short: "Revoke a key at once", Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			if _, err := billing.Do(op, billing.RevokeKey{ID: args[0]}); err != nil {
				return err
			}
			return f.print(cmd, map[string]any{"id": args[0], "revoked": true}, "",
				[][]string{{"revoked", args[0]}})
		}),
	}
	cmd.AddCommand(create, revoke, f.keys(), f.limits())
	return cmd
}

// NewKey is a key as the flags of `farebox key create` describe it.
func NewKey(account, typ, description, expires, limitUSD, limitDIEM, period string) (k billing.NewKey, err error) {
	k = billing.NewKey{Account: account, Description: description}
	if k.Type, err = store.ParseKeyType(typ); err != nil {
		return k, err
	}
	if k.Period, err = store.ParsePeriod(period); err != nil {
		return k, err
	}
	if expires != "" {
		if k.ExpiresAt, err = time.Parse(time.RFC3339, expires); err != nil {
			if k.ExpiresAt, err = time.Parse(time.DateOnly, expires); err != nil {
				return k, fmt.Errorf("cannot read --expires %q: write 2027-01-31 or 2027-01-31T12:00:00Z", expires)
			}
		}
	}
	for _, limit := range []struct {
		flag, text string
		into       **billing.Nano
	}{{"--limit-usd", limitUSD, &k.LimitUSD}, {"--limit-diem", limitDIEM, &k.LimitDIEM}} {
		if limit.text == "" {
			continue
		}
		v, err := config.ParseNano(limit.text)
		if err != nil {
			return k, fmt.Errorf("cannot read %s %q: it %w; write it as 25 or 0.5", limit.flag, limit.text, err)
		}
		*limit.into = &v
	}
	return k, nil
}
