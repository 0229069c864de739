package setup

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"farebox/config"
	"farebox/config/prices"
)

func pricesCommand() *cobra.Command {
	var file, list string
	var vendors, asJSON bool
	cmd := &cobra.Command{
		Use: "prices [PATTERN…]", Short: "Show the list of models and prices, or compare a config with it",
		Long: "Shows models with their list price in USD per 1,000,000 tokens, their context and what they can. A pattern is a name such " +
			"as gpt-6* or openai/*. With -c it compares the prices of a config with the list.",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, p := range args {
				if _, err := path.Match(p, ""); err != nil {
					return fmt.Errorf("%q is not a pattern: %w", p, err)
				}
			}
			out := cmd.OutOrStdout()
			if vendors {
				return showVendors(out)
			}
			if file != "" {
				return comparePrices(out, file, list, args)
			}
			l, err := openList(list)
			if err != nil {
				return err
			}
			chosen := slices.DeleteFunc(slices.Clone(l.Models), func(m prices.Model) bool {
				return m.Context == 0 || !asked(args, m.Vendor, m.Name)
			})
			if asJSON {
				return printJSON(out, l, chosen)
			}
			return printList(out, l, chosen)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "config to compare with the list")
	cmd.Flags().StringVar(&list, "prices", "", "list of models and prices in LiteLLM's form; default: prices.list of the config, or the built-in list")
	cmd.Flags().BoolVar(&vendors, "vendors", false, "show the providers that farebox init knows, with their variables")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func asked(patterns []string, vendor, name string) bool {
	if len(patterns) == 0 {
		return true
	}
	whole := vendor + "/" + strings.ReplaceAll(name, "/", "|")
	for _, p := range patterns {
		vendorPart, rest, ok := strings.Cut(p, "/")
		if ok && prices.VendorNamed(vendorPart) != nil {
			p = vendorPart + "/" + strings.ReplaceAll(rest, "/", "|")
		} else {
			p = "*/" + strings.ReplaceAll(p, "/", "|")
		}
		if ok, _ := path.Match(p, whole); ok {
			return true
		}
	}
	return false
}

func showVendors(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "provider\tmodels with a price\tkey\taddress")
	for _, v := range prices.Vendors {
		sold := slices.DeleteFunc(prices.Builtin().Of(v.Name), func(m prices.Model) bool { return m.Unsold != "" })
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", v.Name, len(sold), strings.Join(v.Keys, ", "), v.BaseURL)
	}
	return w.Flush()
}

func printList(out io.Writer, l *prices.List, list []prices.Model) error {
	one := big.NewRat(1, 1)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "model\tinput\toutput\tcache read\tcache write\tcontext\tcan\tends")
	for i := range list {
		m := &list[i]
		if m.Unsold != "" {
			fmt.Fprintf(w, "%s/%s\t-\t-\t-\t-\t%d\tnot sold: %s\t\n", m.Vendor, m.Name, m.Context, m.Unsold)
			continue
		}
		ends := ""
		if !m.Ends.IsZero() {
			ends = m.Ends.Format(time.DateOnly)
		}
		price := func(r *big.Rat) string { return prices.PerMillion(r, one) }
		fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", m.Vendor, m.Name, price(m.Price.Input), price(m.Price.Output),
			price(m.Price.CacheRead), price(m.Price.CacheWrite), m.Context, strings.Join(can(m), " "), ends)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d models, USD per 1,000,000 tokens, list prices of %s\n", len(list), named(l))
	return err
}

// can are the capabilities of a model in words.
func can(m *prices.Model) []string {
	var all []string
	for _, c := range []struct {
		on   bool
		word string
	}{{m.Embedding, "embeddings"}, {m.Tools, "tools"}, {m.Vision, "vision"}, {m.Files, "files"}, {m.Audio, "audio"}, {m.Video, "video"},
		{m.Schema, "schema"}, {m.Reasons, "reasoning"}} {
		if c.on {
			all = append(all, c.word)
		}
	}
	return all
}

// listing is a model of `farebox prices --json`: USD per 1,000,000 tokens as decimals.
type listing struct {
	Provider   string   `json:"provider"`
	Model      string   `json:"model"`
	Input      string   `json:"input,omitempty"`
	Output     string   `json:"output,omitempty"`
	CacheRead  string   `json:"cache_read,omitempty"`
	CacheWrite string   `json:"cache_write,omitempty"`
	Context    int64    `json:"context_tokens"`
	Completion int64    `json:"max_completion_tokens,omitempty"`
	Can        []string `json:"capabilities"`
	Ends       string   `json:"ends,omitempty"`
	Unsold     string   `json:"not_sold,omitempty"`
}

func printJSON(out io.Writer, l *prices.List, list []prices.Model) error {
	all, one := []listing{}, big.NewRat(1, 1)
	for i := range list {
		m := &list[i]
		e := listing{Provider: m.Vendor, Model: m.Name, Context: m.Context, Completion: m.Output, Can: can(m), Unsold: m.Unsold,
			Input: prices.PerMillion(m.Price.Input, one), Output: prices.PerMillion(m.Price.Output, one),
			CacheRead: prices.PerMillion(m.Price.CacheRead, one), CacheWrite: prices.PerMillion(m.Price.CacheWrite, one)}
		if e.Can == nil {
			e.Can = []string{}
		}
		if !m.Ends.IsZero() {
			e.Ends = m.Ends.Format(time.DateOnly)
		}
		all = append(all, e)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"source": l.Source, "date": l.Date, "models": all})
}

// comparePrices compares the prices of a config with those of the list, and warns of lower
// ones.
func comparePrices(out io.Writer, file, list string, patterns []string) error {
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	if list == "" {
		list = cfg.Prices.List
	}
	l, err := openList(list)
	if err != nil {
		return err
	}
	upstreams := map[string]*config.Upstream{}
	for i := range cfg.Upstreams {
		upstreams[cfg.Upstreams[i].Name] = &cfg.Upstreams[i]
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "model\ttarget\tinput\tlist\toutput\tlist\tmargin\t")
	below, unknown := 0, 0
	for i := range cfg.Models {
		m := &cfg.Models[i]
		price := priceOf(m)
		for _, t := range m.Targets {
			u := upstreams[t.Upstream]
			var listed *prices.Model
			if v := prices.VendorOf(u.Dialect, u.BaseURL); v != nil {
				listed = l.Find(v.Name, t.Model)
			}
			if price == nil || listed != nil && !asked(patterns, listed.Vendor, listed.Name) {
				continue
			}
			if listed == nil || listed.Unsold != "" {
				unknown++
				fmt.Fprintf(w, "%s\t%s/%s\t%s\t-\t%s\t-\tnot in the list\t\n", m.ID, t.Upstream, t.Model, price.Input.PerMillion(), price.Output.PerMillion())
				continue
			}
			least, note := margin(price, &listed.Price), ""
			if least.Sign() < 0 {
				below++
				note = "BELOW THE LIST"
			}
			one := big.NewRat(1, 1)
			fmt.Fprintf(w, "%s\t%s/%s\t%s\t%s\t%s\t%s\t%s%%\t%s\n", m.ID, t.Upstream, t.Model, price.Input.PerMillion(),
				prices.PerMillion(listed.Price.Input, one), price.Output.PerMillion(), prices.PerMillion(listed.Price.Output, one),
				least.FloatString(1), note)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "compared with the list prices of %s; the margin is the least of all kinds of tokens\n", named(l))
	if unknown > 0 {
		fmt.Fprintf(out, "%d targets are not in the list\n", unknown)
	}
	if below > 0 {
		return fmt.Errorf("%d targets are sold below the list price", below)
	}
	return nil
}

// priceOf is the price of tokens of a model; nil without one.
func priceOf(m *config.Model) *config.Price {
	switch s := m.Spec.(type) {
	case *config.Chat:
		return s.Price
	case *config.Embedding:
		return s.Price
	}
	return nil
}

// margin is the least share, in percent, that a price is above the list.
func margin(p *config.Price, listed *prices.Price) *big.Rat {
	var least *big.Rat
	hundred := big.NewRat(100, 1)
	for _, pair := range []struct {
		own  *config.Pico
		list *big.Rat
	}{{&p.Input, listed.Input}, {&p.Output, listed.Output}, {orInput(p.CacheRead, p), listed.CacheRead}, {orInput(p.CacheWrite, p), listed.CacheWrite}} {
		if pair.list == nil {
			continue
		}
		own := big.NewRat(int64(*pair.own), 1_000_000_000_000)
		share := new(big.Rat).Quo(own, pair.list)
		share.Sub(share, big.NewRat(1, 1)).Mul(share, hundred)
		if least == nil || share.Cmp(least) < 0 {
			least = share
		}
	}
	if least == nil {
		return new(big.Rat)
	}
	return least
}

func orInput(c *config.Pico, p *config.Price) *config.Pico {
	if c == nil {
		return &p.Input
	}
	return c
}
