package setup

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"farebox/config"
	"farebox/config/prices"
	"farebox/providers"
)

// choices are the flags of `farebox init`; missing ones are asked on a terminal.
type choices struct {
	out, listen, store string
	vendors, servers   []string
	models             []string
	margin, own, list  string
	yes, force         bool
	offline            bool
}

func initCommand() *cobra.Command {
	var c choices
	cmd := &cobra.Command{
		Use: "init", Short: "Write a first config from the keys in the environment and a list of models and prices", Args: cobra.NoArgs,
		Long: "Writes a config for the providers whose keys are in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY " +
			"and others) and for your own servers (Ollama, vLLM). It asks each provider which models the key can use, and takes context, " +
			"capabilities and price from the built-in list. Keys stay in the environment: the config names the variables. " +
			"On a terminal it asks what flags do not say.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := &questions{out: cmd.ErrOrStderr()}
			if f, ok := cmd.InOrStdin().(*os.File); ok && !c.yes && term.IsTerminal(int(f.Fd())) {
				q.in = bufio.NewScanner(f)
			}
			return c.run(q, cmd.Flags().Changed)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.out, "out", "o", "farebox.yaml", "file to write")
	f.StringSliceVar(&c.vendors, "provider", nil, "providers, such as openai,anthropic; default: those with a key in the environment")
	f.StringSliceVar(&c.servers, "server", nil, "addresses of your own servers, such as http://127.0.0.1:11434 (Ollama)")
	f.StringSliceVar(&c.models, "model", nil, "models or patterns, such as gpt-6*,claude-*; default: current models that call tools, and embeddings")
	f.StringVar(&c.margin, "margin", "20", "percent that are added to list prices")
	f.StringVar(&c.own, "own-price", "0.10/0.40", "USD per 1,000,000 input/output tokens of your own servers")
	f.StringVar(&c.list, "prices", "", "list of models and prices in LiteLLM's form; default: the built-in list")
	f.StringVar(&c.listen, "listen", "127.0.0.1:8080", "address to listen on")
	f.StringVar(&c.store, "store", "./farebox-data", "ledger directory or postgres://…")
	f.BoolVar(&c.yes, "yes", false, "ask nothing")
	f.BoolVar(&c.force, "force", false, "replace the file if it exists")
	f.BoolVar(&c.offline, "offline", false, "do not ask providers which models the keys can use")
	return cmd
}

// questions are asked on a terminal; without one each has its default.
type questions struct {
	in  *bufio.Scanner // nil: no terminal
	out io.Writer
}

func (q *questions) prompt(otherwise, format string, args ...any) string {
	if q.in == nil {
		return otherwise
	}
	fmt.Fprintf(q.out, format+" [%s]: ", append(args, cmp.Or(otherwise, "none"))...)
	if !q.in.Scan() {
		q.in = nil
		return otherwise
	}
	return cmp.Or(strings.TrimSpace(q.in.Text()), otherwise)
}

func (q *questions) say(format string, args ...any) { fmt.Fprintf(q.out, format+"\n", args...) }

func (c *choices) run(q *questions, changed func(string) bool) error {
	if _, err := os.Stat(c.out); err == nil && !c.force {
		return fmt.Errorf("%s exists: name another file with -o, or replace it with --force", c.out)
	}
	l, err := openList(c.list)
	if err != nil {
		return err
	}
	d := &draft{source: named(l)}
	if err := c.choose(q, changed, d); err != nil {
		return err
	}
	for _, name := range c.vendors {
		v := prices.VendorNamed(name)
		if v == nil || v.BaseURL == "" {
			return fmt.Errorf("there is no provider %q to begin with; expected %s", name, strings.Join(vendorNames(), ", "))
		}
		if err := c.addVendor(q, d, l, v); err != nil {
			return err
		}
	}
	for i, at := range c.servers {
		if err := c.addServer(q, d, at, i); err != nil {
			return err
		}
	}
	if len(d.models) == 0 {
		return c.nothing()
	}
	d.chooseDefault()
	if !changed("listen") {
		c.listen = q.prompt(c.listen, "Address to listen on")
	}
	if !changed("store") {
		c.store = q.prompt(c.store, "Ledger: a directory, or postgres://…")
	}
	d.listen, d.store = c.listen, c.store
	d.head = []string{"Written by farebox init on " + time.Now().UTC().Format(time.DateOnly) + ". Check it after each change: farebox check -c " + c.out,
		"All keys: config/REFERENCE.md, and config/examples/full.yaml."}
	if err := save(c.out, d.String(), c.force); err != nil {
		return err
	}
	q.say("%s has %s of %s. Next:", c.out, counted(len(d.models), "model"), counted(len(d.upstreams), "provider"))
	program := os.Args[0]
	q.say("  %s check --online -c %s", program, c.out)
	q.say("  %s serve -c %s", program, c.out)
	q.say("  %s account create --name alice -c %s && %[1]s account credit alice 10 -c %[2]s && %[1]s key create --account alice -c %[2]s", program, c.out)
	return nil
}

// nothing is the error of a config without models.
func (c *choices) nothing() error {
	if len(c.vendors)+len(c.servers) > 0 {
		return errors.New("no model is left: choose others with --model; farebox prices shows the list")
	}
	return errors.New("no provider is known: set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or the key of another provider " +
		"in the environment, or name a server with --server http://127.0.0.1:11434 (farebox prices --vendors lists all)")
}

// choose finds the providers, the servers and the margin.
func (c *choices) choose(q *questions, changed func(string) bool, d *draft) error {
	if !changed("provider") {
		var found []string
		for i := range prices.Vendors {
			if v := &prices.Vendors[i]; v.BaseURL != "" && keyOf(v) != "" {
				q.say("%s: a key is in %s", v.Title, keyOf(v))
				found = append(found, v.Name)
			}
		}
		answer := q.prompt(strings.Join(found, ","), "Providers, of %s; or none", strings.Join(vendorNames(), ", "))
		c.vendors = words(answer)
	}
	if !changed("server") && q.in != nil {
		c.servers = words(q.prompt("", "Addresses of your own servers, such as http://127.0.0.1:11434 (Ollama) or http://10.0.0.11:8000 (vLLM)"))
	}
	if !changed("margin") && len(c.vendors) > 0 {
		c.margin = q.prompt(c.margin, "Percent to add to list prices")
	}
	var err error
	d.margin, err = readMargin(c.margin)
	return err
}

func words(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.DeleteFunc(list, func(w string) bool { return w == "none" })
}

func vendorNames() []string {
	var names []string
	for _, v := range prices.Vendors {
		if v.BaseURL != "" {
			names = append(names, v.Name)
		}
	}
	return names
}

// keyOf is the environment variable that holds a vendor's key; empty if absent.
func keyOf(v *prices.Vendor) string {
	for _, name := range v.Keys {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// baseOf is the address of a vendor, which the variables of its own packages may replace.
func baseOf(v *prices.Vendor) string {
	for _, name := range v.Bases {
		if base := os.Getenv(name); base != "" {
			return v.At(base)
		}
	}
	return v.BaseURL
}

// resolved is an upstream of the draft with its key, as the gateway reads it.
func (u *upstream) resolved() (*config.Upstream, error) {
	one := &draft{listen: "127.0.0.1:8080", store: "./farebox-data", margin: new(big.Rat), upstreams: []upstream{*u},
		models: []model{{id: "x", price: "free", known: prices.Model{Context: 1}, targets: []target{{upstream: u.name}}}}}
	cfg, err := config.Parse("init", []byte(one.String()), anything)
	if err != nil {
		var p *config.Problems
		if errors.As(err, &p) && len(p.List) > 0 {
			return nil, fmt.Errorf("%s %s", p.List[0].Path, p.List[0].Message)
		}
		return nil, err
	}
	return &cfg.Upstreams[0], nil
}

func (c *choices) addVendor(q *questions, d *draft, l *prices.List, v *prices.Vendor) error {
	key := cmp.Or(keyOf(v), v.Keys[0])
	if keyOf(v) == "" {
		key = q.prompt(key, "%s: environment variable with the key", v.Title)
		if !variable.MatchString(key) {
			return fmt.Errorf("%q is not the name of an environment variable; the key itself does not belong here", key)
		}
	}
	u := upstream{name: v.Name, dialect: v.Dialect, base: baseOf(v), key: "${" + key + "}"}
	usable := l.Of(v.Name)
	if !c.offline && os.Getenv(key) != "" {
		up, err := u.resolved()
		if err != nil {
			return fmt.Errorf("%s: %w", v.Title, err)
		}
		if listed, err := providers.ListModels(up); err != nil {
			q.say("%s: its models cannot be listed: %v. The list of prices is taken without them.", v.Title, err)
		} else {
			usable = known(usable, listed)
			if len(usable) == 0 {
				usable = ofVendor(v, listed)
			}
		}
	}
	usable = slices.DeleteFunc(usable, func(m prices.Model) bool {
		return m.Unsold != "" || !m.Ends.IsZero() && m.Ends.Before(time.Now()) || m.Embedding && v.Dialect != "openai"
	})
	chosen, err := c.pick(q, v.Title, usable)
	if err != nil || len(chosen) == 0 {
		return err
	}
	u.lines = append(u.lines, compatible(v)...)
	d.upstreams = append(d.upstreams, u)
	for _, m := range chosen {
		d.add(model{id: m.Name, vendor: v, known: m, comment: remarks(&m, time.Now())}, target{upstream: u.name, model: m.Name})
	}
	return nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// compatible are settings of servers that have OpenAI's API and are not OpenAI's.
func compatible(v *prices.Vendor) []string {
	switch {
	case v == nil, v.Dialect == "openai" && v.Name != "openai" && v.Name != "mistral":
		return []string{"quirks: { max_tokens: true, no_developer_role: true }"}
	case v.Name == "mistral": // it reports usage unasked
		return []string{"quirks: { max_tokens: true, no_developer_role: true, no_stream_options: true }"}
	}
	return nil
}

// known are the models of the list that a key can use.
func known(list, listed []prices.Model) []prices.Model {
	can := map[string]bool{}
	for _, m := range listed {
		can[m.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(m prices.Model) bool { return !can[m.Name] })
}

// ofVendor are models whose provider says their prices, as OpenRouter does.
func ofVendor(v *prices.Vendor, listed []prices.Model) []prices.Model {
	var all []prices.Model
	for _, m := range listed {
		if m.Vendor = v.Name; m.Price.Input != nil && m.Price.Output != nil && m.Context > 0 {
			all = append(all, m)
		}
	}
	return all
}

// add puts a model into the draft. A second provider's model of the same name has the provider's name before it.
func (d *draft) add(m model, t target) {
	if slices.ContainsFunc(d.models, func(o model) bool { return o.id == m.id }) {
		m.id = t.upstream + "/" + m.id
	}
	m.targets = append(m.targets, t)
	d.models = append(d.models, m)
}

// chooseDefault gives the trait default to the model that calls tools for the lowest list price.
func (d *draft) chooseDefault() {
	best := -1
	for i := range d.models {
		m := &d.models[i].known
		if !m.Tools || m.Embedding {
			continue
		}
		if best < 0 || m.Price.Output != nil && (d.models[best].known.Price.Output == nil ||
			m.Price.Output.Cmp(d.models[best].known.Price.Output) < 0) {
			best = i
		}
	}
	if best >= 0 {
		d.models[best].base = true
	}
}

// snapshot matches names of one state of a model, or of a trial.
var snapshot = regexp.MustCompile(`\d{4}-\d{2}-\d{2}|[-@]\d{6,8}\b|-\d{4}$|preview|-exp\b|experimental|-latest|-beta|audio|search|realtime|computer-use|robotics|@default`)

// soon is how long a model must be served to be offered at first.
const soon = 60 * 24 * time.Hour

// current are models that a new gateway offers: those that call tools and are there to stay, and embeddings.
func current(all []prices.Model) []prices.Model {
	return slices.DeleteFunc(slices.Clone(all), func(m prices.Model) bool {
		return !m.Tools && !m.Embedding || snapshot.MatchString(m.Name) || !m.Ends.IsZero() && m.Ends.Before(time.Now().Add(soon))
	})
}

// pick asks which models of a provider are sold.
func (c *choices) pick(q *questions, title string, all []prices.Model) ([]prices.Model, error) {
	if len(all) == 0 {
		q.say("%s: the list has no price of a model that can be used; add models by hand (config/README.md).", title)
		return nil, nil
	}
	usual := current(all)
	if len(usual) == 0 {
		usual = all
	}
	if len(c.models) > 0 {
		return matching(c.models, all)
	}
	for {
		var names []string
		for _, m := range usual {
			names = append(names, m.Name)
		}
		q.say("%s: %d models with a price; current ones: %s", title, len(all), strings.Join(names, ", "))
		answer := q.prompt("current", "Models: current, all, or names and patterns such as gpt-6*")
		switch answer {
		case "current":
			return usual, nil
		case "all":
			return all, nil
		}
		chosen, err := matching(words(answer), all)
		if err == nil && len(chosen) > 0 || q.in == nil {
			return chosen, err
		}
		q.say("%s: no model has such a name.", title)
	}
}

func matching(patterns []string, all []prices.Model) ([]prices.Model, error) {
	var chosen []prices.Model
	for _, m := range all {
		for _, p := range patterns {
			ok, err := path.Match(strings.ReplaceAll(p, "/", "|"), strings.ReplaceAll(m.Name, "/", "|"))
			if err != nil {
				return nil, fmt.Errorf("%q is not a pattern: %w", p, err)
			}
			if ok {
				chosen = append(chosen, m)
				break
			}
		}
	}
	return chosen, nil
}

// addServer adds a server of the operator's own, which is asked for its models.
func (c *choices) addServer(q *questions, d *draft, at string, i int) error {
	name := "own"
	if i > 0 {
		name += strconv.Itoa(i + 1)
	}
	base := strings.TrimRight(at, "/")
	if !strings.HasSuffix(base, "/v1") && !strings.HasPrefix(base, "unix:") {
		base += "/v1"
	}
	u := upstream{name: name, base: base, comment: "A server of your own: its address, and how long a queue in front of the GPUs may take.",
		lines: append([]string{"max_idle: 4s", "timeouts: { first_byte: 300s }"}, compatible(nil)...)}
	up, err := u.resolved()
	if err != nil {
		return fmt.Errorf("server %s: %w", at, err)
	}
	list, err := providers.ListModels(up)
	if err != nil {
		return fmt.Errorf("server %s: %w", at, err)
	}
	if len(c.models) > 0 {
		if list, err = matching(c.models, list); err != nil {
			return err
		}
	}
	own := q.prompt(c.own, "%s has %d models. Their price, USD per 1,000,000 input/output tokens", at, len(list))
	in, out, ok := strings.Cut(own, "/")
	if !ok {
		return fmt.Errorf("%q is not a price; expected input/output, such as 0.10/0.40", own)
	}
	for _, p := range []string{in, out} {
		if _, err := config.ParsePrice(strings.TrimSpace(p)); err != nil {
			return fmt.Errorf("%q is not a price: it %w; expected input/output in USD, such as 0.10/0.40", p, err)
		}
	}
	d.upstreams = append(d.upstreams, u)
	for _, m := range list {
		one := model{id: m.Name, known: m, price: fmt.Sprintf("{ input: %s, output: %s }", strings.TrimSpace(in), strings.TrimSpace(out)),
			comment: []string{"Your own server: write what its tokens cost you, and more."}}
		if m.Embedding {
			one.price = fmt.Sprintf("{ input: %s }", strings.TrimSpace(in))
		}
		if !m.Tools && !m.Embedding {
			one.comment = append(one.comment, "If it calls tools (vLLM: --enable-auto-tool-choice), add capabilities: { tools: true }.")
		}
		if m.Context == 0 && !m.Embedding {
			one.known.Context = unknownContext
			one.comment = append(one.comment, "The server does not say how long its context is.")
		}
		d.add(one, target{upstream: name, model: m.Name})
	}
	return nil
}

// unknownContext is the context of a model whose server does not report it.
const unknownContext = 8192
