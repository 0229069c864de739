package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
)

// Key gives the commands that go below `farebox key`.
func (e *Env) Key() []*cobra.Command { return []*cobra.Command{e.keys(), e.limits()} }

func (e *Env) keys() *cobra.Command {
	var of string
	cmd := &cobra.Command{
		Use: "list", Short: "List keys with their limits, what they used of them, and expiry; secrets are never shown again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.With(func(op billing.Operator) error {
				keys, err := op.Keys(of)
				if err != nil {
					return err
				}
				rows := make([][]string, len(keys))
				for i := range keys {
					k := &keys[i]
					rows[i] = append([]string{k.ID, k.AccountName, k.Type.String(), "…" + k.Last6, k.State()}, limitColumns(k)...)
					rows[i] = append(rows[i], k.Description)
				}
				return e.Print(cmd, keys, "ID ACCOUNT TYPE SECRET STATE PERIOD USD DIEM EXPIRES DESCRIPTION", rows)
			})
		},
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

func (e *Env) limits() *cobra.Command {
	var usd, diem, period, expires, privacy string
	cmd := &cobra.Command{
		Use: "limits ID", Short: "Change a key's limits, their period, its expiry and privacy", Args: cobra.ExactArgs(1),
		Long: `Changes what is given and leaves the rest as it is. "none" clears a limit, "never" an expiry.
What the key has used in its period stays counted. The change holds at once here, and within a second on all nodes.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := keyChange(usd, diem, period, expires, privacy)
			if err != nil {
				return err
			}
			return e.With(func(op billing.Operator) error {
				k, err := op.ChangeKey(args[0], change)
				if err != nil {
					return err
				}
				columns := limitColumns(&k)
				limit := func(l billing.Limit) string {
					if !l.Set {
						return "none"
					}
					return string(l.AppendJSON(nil))
				}
				return e.Print(cmd, k, "", [][]string{
					{"id", k.ID}, {"account", k.AccountName}, {"period", k.Period.String()}, {"limit USD", limit(k.USD())}, {"limit DIEM", limit(k.DIEM())},
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
	return PositiveAmounts(cmd)
}

func keyChange(usd, diem, period, expires, privacy string) (c billing.KeyChange, err error) {
	for _, l := range []struct {
		flag, text string
		into       **billing.Limit
	}{{"--usd", usd, &c.USD}, {"--diem", diem, &c.DIEM}} {
		switch {
		case l.text == "":
		case strings.EqualFold(l.text, "none"):
			*l.into = &billing.Limit{}
		default:
			v, err := billing.ParseLimit(l.text)
			if err != nil {
				return c, fmt.Errorf("cannot read %s %q: it %w; write it as 25 or 0.5, or none", l.flag, l.text, err)
			}
			*l.into = &v
		}
	}
	if period != "" {
		p, err := billing.ParsePeriod(period)
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
					return c, fmt.Errorf("cannot read --expires %q: write 2027-01-31 or 2027-01-31T12:00:00Z, or never", expires)
				}
			}
			if !at.After(time.Now()) {
				return c, fmt.Errorf("cannot use --expires %s: it is past; to end a key at once use: farebox key revoke ID", expires)
			}
		}
		c.ExpiresAt = &at
	}
	if privacy != "" {
		p, err := billing.ParseModelPrivacy(privacy)
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
