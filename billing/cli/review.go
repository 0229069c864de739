package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/config"
)

func (f *operatorFlags) reviewCommand(folder func() (*config.Characters, error)) *cobra.Command {
	cmd := &cobra.Command{Use: "review",
		Short: "Add, hide and list reviews of characters; the server may be running"}
	cmd.AddCommand(f.addReview(folder), f.hideReview(), f.listReviews())
	return cmd
}

func (f *operatorFlags) addReview(folder func() (*config.Characters, error)) *cobra.Command {
	var n billing.NewReview
	var at string
	cmd := &cobra.Command{
		Use: "add SLUG --rating N", Short: "Add a review of a character", Args: cobra.ExactArgs(1),
		Long: `Adds a review by an account or by a person without one. An account has one review of each character. Clients see
a name that does not identify the account.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Slug = args[0]
			if c, err := folder(); err == nil {
				set, err := c.Read()
				if err != nil {
					return err
				}
				if set.Find(n.Slug) == nil {
					return fmt.Errorf("cannot review %q: %w in %s; farebox character list shows them", n.Slug,
						config.ErrNoCharacter, c.Directory)
				}
			}
			if at != "" {
				var err error
				if n.CreatedAt, err = time.Parse(time.RFC3339, at); err != nil {
					if n.CreatedAt, err = day(at); err != nil {
						return fmt.Errorf("cannot read --at %q: write 2026-01-31 or 2026-01-31T12:00:00Z", at)
					}
				}
			}
			return f.with(func(op billing.Operator) error {
				r, err := billing.Do(op, billing.AddReview{NewReview: n})
				if err != nil {
					return err
				}
				return f.printReview(cmd, r)
			})
		},
	}
	cmd.Flags().IntVar(&n.Rating, "rating", 0, "1 to 5")
	cmd.Flags().StringVar(&n.Account, "account", "", "name or id of the reviewer's account; default: no account")
	cmd.Flags().StringVar(&n.Message, "message", "", "text of the review, at most 2000 characters")
	cmd.Flags().StringVar(&n.Locale, "locale", "", "language of the message, such as en or pt-BR")
	cmd.Flags().StringVar(&at, "at", "", "time of the review, as RFC 3339 or YYYY-MM-DD; default: now")
	_ = cmd.MarkFlagRequired("rating")
	return cmd
}

func (f *operatorFlags) hideReview() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "hide ID", Short: "Remove a review from all lists, sums and averages", Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			r, err := billing.Do(op, billing.HideReview{ID: args[0], Hide: !undo})
			if errors.Is(err, billing.ErrNoReview) {
				err = fmt.Errorf("%w; farebox character review list shows their ids", err)
			}
			if err != nil {
				return err
			}
			return f.printReview(cmd, r)
		}),
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "show it again")
	return cmd
}

func (f *operatorFlags) listReviews() *cobra.Command {
	return &cobra.Command{
		Use: "list [SLUG]", Short: "List reviews, hidden ones too, newest first", Args: cobra.MaximumNArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			slug := ""
			if len(args) > 0 {
				slug = args[0]
			}
			list, err := billing.All(op, billing.ListReviews{Slug: slug})
			if err != nil {
				return err
			}
			const head = "ID SLUG RATING STATE ACCOUNT SHOWN-AS CREATED MESSAGE"
			return printList(f, cmd, list, head, func(r *billing.ReviewInfo) []string {
				return []string{r.ID, r.Slug, strconv.Itoa(r.Rating), stateOf(r), r.AccountName, r.Username,
					r.CreatedAt.Format(time.RFC3339), strings.Join(strings.Fields(r.Message), " ")}
			})
		}),
	}
}

func stateOf(r *billing.ReviewInfo) string {
	if r.HiddenAt.IsZero() {
		return "shown"
	}
	return "hidden"
}

func (f *operatorFlags) printReview(cmd *cobra.Command, r billing.ReviewInfo) error {
	return f.print(cmd, r, "", [][]string{{"id", r.ID}, {"character", r.Slug}, {"rating", strconv.Itoa(r.Rating)},
		{"state", stateOf(&r)}, {"shown as", r.Username}})
}
