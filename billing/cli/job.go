package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/config"
)

func jobCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{Use: "job",
		Short: "List and refund " + strings.Join(config.JobNames(), " and ") + " jobs; the server may be running"}
	cmd.AddCommand(f.listJobs(), f.showJob(), f.refundJob())
	return f.register(cmd)
}

func (f *operatorFlags) listJobs() *cobra.Command {
	var account string
	var most int
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, newest first", Args: cobra.NoArgs,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			list, err := billing.All(op, billing.ListJobs{Account: account, Page: billing.Page{Limit: most}})
			if err != nil {
				return err
			}
			const head = "ID ACCOUNT MODEL STATE CREATED PAID REFUNDED BYTES"
			return printList(f, cmd, list, head, func(j *billing.JobInfo) []string {
				return []string{j.ID, j.AccountName, j.Model, j.State, j.CreatedAt.Format(time.RFC3339), amounts(j.Paid),
					amounts(j.Refunded), strconv.FormatInt(j.MediaBytes, 10)}
			})
		}),
	}
	cmd.Flags().StringVar(&account, "account", "", "name or id of the account; default: all")
	cmd.Flags().IntVar(&most, "limit", 100, "number of jobs, at most 10000")
	return cmd
}

func (f *operatorFlags) showJob() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a job", Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			j, err := billing.Do(op, billing.GetJob{ID: args[0]})
			if err != nil {
				return advise(err)
			}
			return f.printJob(cmd, j)
		}),
	}
}

func (f *operatorFlags) refundJob() *cobra.Command {
	return &cobra.Command{
		Use: "refund ID", Short: "Refund a finished job", Args: cobra.ExactArgs(1),
		Long: `Refunds a job once, in the currencies of its charge, and also to the limits of its key. farebox refunds failed
jobs by itself. DIEM of a past day are not refunded.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			j, err := billing.Do(op, billing.RefundJob{ID: args[0]})
			if err != nil {
				return advise(err)
			}
			return f.printJob(cmd, j)
		}),
	}
}

func advise(err error) error {
	if errors.Is(err, billing.ErrNoJob) {
		return fmt.Errorf("%w; farebox job list shows their ids", err)
	}
	return err
}

func (f *operatorFlags) printJob(cmd *cobra.Command, j billing.JobInfo) error {
	rows := [][]string{{"id", j.ID}, {"account", j.AccountName}, {"model", j.Model}, {"state", j.State},
		{"node", fmt.Sprint(j.Node)}, {"upstream", strings.TrimSpace(j.Upstream + " " + j.Target)},
		{"created", j.CreatedAt.Format(time.RFC3339)}, {"paid", amounts(j.Paid)}, {"refunded", amounts(j.Refunded)}}
	if j.Owed && j.RefundedAt.IsZero() {
		rows = append(rows, []string{"to refund", "once it is paid"})
	}
	if !j.EndedAt.IsZero() {
		rows = append(rows, []string{"ended", j.EndedAt.Format(time.RFC3339)})
	}
	if j.Error != "" {
		rows = append(rows, []string{"error", strings.Join(strings.Fields(j.Code+" "+j.Error), " ")})
	}
	if j.MediaType != "" {
		rows = append(rows, []string{"media", fmt.Sprintf("%s, %d bytes", j.MediaType, j.MediaBytes)})
	}
	return f.print(cmd, j, "", rows)
}

// amounts writes out the amounts that are not zero.
func amounts(a billing.JobAmount) string {
	var list []string
	for _, c := range money.Listed {
		if n := *a.At(money.PlaceOf(c)); n != 0 {
			list = append(list, n.String()+" "+c.String())
		}
	}
	if len(list) == 0 {
		return "0"
	}
	return strings.Join(list, ", ")
}
