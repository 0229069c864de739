package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/config"
	"farebox/proxy/listen"
)

// operatorCommand works on the operators' API: its tokens, and calls through its socket.
func operatorCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{Use: "operator", Short: "Make tokens for the operators' API, and call it through its socket"}
	token := &cobra.Command{Use: "token", Short: "Create, list and revoke tokens of the operators' API"}
	token.AddCommand(f.createToken(), f.listTokens(), f.revokeToken())
	cmd.AddCommand(token, f.callOperator())
	return f.register(cmd)
}

func (f *operatorFlags) createToken() *cobra.Command {
	var name, role, ends, most string
	cmd := &cobra.Command{
		Use: "create --name NAME --role ROLE", Short: "Create a token; its secret is shown once", Args: cobra.NoArgs,
		Long: `Creates a token for the operators' API. Its role says what it may do:
  read-only  all lists
  support    also suspend, revoke, and credit up to --max-credit USD a UTC day
  billing    also accounts, keys and money
  owner      all, also tokens, reload and backups
Tokens of one name share the daily limit of credits.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := billing.CreateToken{Name: name}
			if err := q.Role.UnmarshalText([]byte(role)); err != nil {
				return err
			}
			var err error
			if q.Ends, err = endOf(ends, time.Now()); err != nil {
				return err
			}
			if most != "" {
				if q.MaxCredit, err = config.ParseNano(most); err != nil {
					return fmt.Errorf("cannot read --max-credit %q: it %w; write it as 20 or 0.25", most, err)
				}
			}
			return f.making(func(op billing.Operator) error {
				t, err := billing.Do(op, q)
				if err != nil {
					return err
				}
				return f.print(cmd, t, "", [][]string{{"id", t.ID}, {"name", t.Name}, {"role", t.Role.String()},
					{"ends", t.EndsAt.Format(time.RFC3339)}, {"token", t.Secret + " (shown once)"}})
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the person or program that has it")
	cmd.Flags().StringVar(&role, "role", "", "read-only, support, billing or owner")
	cmd.Flags().StringVar(&ends, "ends", "90d", "when it ends: 90d, or a time such as 2027-01-31T00:00:00Z")
	cmd.Flags().StringVar(&most, "max-credit", "", "USD that the role support may credit a UTC day; default: operator.max_credit")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("role")
	return cmd
}

// endOf reads a number of days, or a time.
func endOf(text string, now time.Time) (time.Time, error) {
	days := 0
	if n, err := fmt.Sscanf(text, "%dd", &days); err == nil && n == 1 && text == fmt.Sprintf("%dd", days) && days > 0 && days <= 36500 {
		return now.Add(time.Duration(days) * 24 * time.Hour).UTC().Truncate(time.Second), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("cannot read --ends %q: write 90d, or a time such as 2027-01-31T00:00:00Z", text)
	}
	return t.UTC(), nil
}

func (f *operatorFlags) listTokens() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List tokens, the latest first; their secrets are never shown again", Args: cobra.NoArgs,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			var all []billing.TokenInfo
			for q := (billing.ListTokens{}); ; {
				list, err := billing.Do(op, q)
				if err != nil {
					return err
				}
				if all = append(all, list.Items...); list.Next == "" {
					break
				}
				q.Cursor = list.Next
			}
			return printList(f, cmd, all, "ID NAME ROLE ENDS STATE", func(t *billing.TokenInfo) []string {
				state := "valid"
				if !t.RevokedAt.IsZero() {
					state = "revoked"
				} else if t.EndsAt.Before(time.Now()) {
					state = "ended"
				}
				return []string{t.ID, t.Name, t.Role.String(), t.EndsAt.Format(time.RFC3339), state}
			})
		}),
	}
}

func (f *operatorFlags) revokeToken() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a token now", Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			t, err := billing.Do(op, billing.RevokeToken{ID: args[0]})
			if err != nil {
				return err
			}
			return f.print(cmd, t, "", [][]string{{"revoked", t.ID}, {"name", t.Name}})
		}),
	}
}

// callLimit is how long a call through the socket may take.
const callLimit = time.Hour

func (f *operatorFlags) callOperator() *cobra.Command {
	var body string
	cmd := &cobra.Command{
		Use: "call METHOD PATH", Short: "Call the operators' API of the running server through its socket", Args: cobra.ExactArgs(2),
		Long: `Calls an operation through the socket operator.sock in the ledger's folder, as its owner. The user that runs
farebox and root need no token there. PATH begins behind /operator/v1: farebox operator call GET /accounts`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			answer, err := callSocket(filepath.Join(cfg.LedgerDir(), config.OperatorSocketFile), args[0], args[1], body)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(answer)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&body, "body", "", "query of a change, as JSON")
	return cmd
}

// callSocket makes one call as the owner.
func callSocket(path, method, target, body string) ([]byte, error) {
	c := http.Client{Timeout: callLimit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			short, release, err := listen.ShortPath(path)
			if err != nil {
				return nil, err
			}
			defer release()
			return new(net.Dialer).DialContext(ctx, "unix", short)
		}}}
	req, err := http.NewRequest(strings.ToUpper(method), "http://operator/operator/v1/"+strings.TrimPrefix(target, "/"), strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot call %s %s: %w", method, target, err)
	}
	req.Header.Set("X-Farebox-Operator", "1")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w; does farebox serve run, with operator.listen: unix?", path, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s: %s", res.Status, answer)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && !bytes.HasSuffix(answer, []byte("\n")) {
		answer = append(answer, '\n')
	}
	return answer, nil
}
