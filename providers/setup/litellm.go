package setup

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/config"
	"farebox/config/prices"
)

func importCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Write a config from the config of another gateway"}
	var out, margin, list, unknown string
	var force bool
	lite := &cobra.Command{
		Use: "litellm FILE", Short: "Write a config from a config.yaml of LiteLLM's proxy, and say what it could not carry over",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			factor, err := readMargin(margin)
			if err != nil {
				return err
			}
			l, err := openList(list)
			if err != nil {
				return err
			}
			whole, err := readForeign(args[0])
			if err != nil {
				return err
			}
			t := &litellm{list: l, unknown: unknown, now: time.Now(), draft: draft{source: named(l), margin: factor,
				listen: "127.0.0.1:8080", store: "./farebox-data"}}
			if err := t.convert(args[0], whole); err != nil {
				return err
			}
			if err := save(out, t.draft.String(), force); err != nil {
				return err
			}
			w := cmd.ErrOrStderr()
			fmt.Fprintf(w, "%s has %s and %s.\n", out, counted(len(t.draft.models), "model"), counted(len(t.draft.upstreams), "upstream"))
			for _, note := range t.notes {
				fmt.Fprintf(w, "  - %s\n", note)
			}
			fmt.Fprintf(w, "Next:\n  %s check --online -c %s\n", cmd.Root().CommandPath(), out)
			for _, line := range t.commands {
				fmt.Fprintf(w, "  %s %s -c %s\n", cmd.Root().CommandPath(), line, out)
			}
			return nil
		},
	}
	f := lite.Flags()
	f.StringVarP(&out, "out", "o", "farebox.yaml", "file to write")
	f.StringVar(&margin, "margin", "20", "percent that are added to the prices of the file and of the list, which are costs")
	f.StringVar(&list, "prices", "", "list of models and prices in LiteLLM's form; default: the built-in list")
	f.StringVar(&unknown, "unknown-price", "1.00/5.00", "USD per 1,000,000 input/output tokens of models without a known price")
	f.BoolVar(&force, "force", false, "replace the file if it exists")
	cmd.AddCommand(lite)
	return cmd
}

// litellm converts a config of LiteLLM's proxy.
type litellm struct {
	draft
	list        *prices.List
	unknown     string // input/output
	now         time.Time
	notes       []string
	commands    []string // of farebox, without -c
	credentials map[string]group
	timeout     float64 // seconds of a request; 0: not said
	failures    int64
	cooldown    float64
	aliases     map[string][]string // aliases of models, by the model's name
}

func (t *litellm) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

func (t *litellm) convert(file string, whole group) error {
	entries := whole.list("model_list")
	if len(entries) == 0 {
		return fmt.Errorf("%s has no model_list; expected a config.yaml of LiteLLM's proxy", file)
	}
	if len(entries) > mostEntries {
		return fmt.Errorf("%s has more than %d models", file, mostEntries)
	}
	if in, out, ok := strings.Cut(t.unknown, "/"); !ok || !isPrice(in) || !isPrice(out) {
		return fmt.Errorf("%q is not a price; expected input/output in USD per 1,000,000 tokens, such as 1.00/5.00", t.unknown)
	}
	t.credentials = map[string]group{}
	for _, one := range whole.list("credential_list") {
		if c, ok := one.(map[string]any); ok {
			g := group(c)
			t.credentials[g.text("credential_name")] = g.group("credential_values")
		}
	}
	t.aliases = map[string][]string{}
	t.settings(whole.group("litellm_settings"))
	t.router(whole.group("router_settings"))
	t.general(whole.group("general_settings"))
	for i, one := range entries {
		m, ok := one.(map[string]any)
		if !ok {
			return fmt.Errorf("model_list[%d] is not a group of keys", i)
		}
		t.entry(i, m)
	}
	if env := whole.group("environment_variables"); len(env) > 0 {
		t.note("environment_variables: farebox does not set variables; set %s where it runs", strings.Join(env.rest(), ", "))
	}
	for _, key := range whole.rest() {
		t.note("%s is not carried over: %s", key, cmp.Or(leftOut[key], "farebox has nothing like it"))
	}
	if len(t.models) == 0 {
		return errors.New("none of the models can be carried over:\n  - " + strings.Join(t.notes, "\n  - "))
	}
	t.finish()
	t.head = []string{"Written by farebox import litellm on " + t.now.UTC().Format(time.DateOnly) + " from " + file + ".",
		"Prices of the file and of the list are costs; --margin says what is added.",
		"All keys: config/REFERENCE.md, and config/examples/full.yaml."}
	return nil
}

// leftOut are sections of the file that have no counterpart, with their replacement.
var leftOut = map[string]string{
	"guardrails":             "farebox does not judge content",
	"mcp_servers":            "clients call MCP servers themselves",
	"search_tools":           "searches are configured in augment.search",
	"sandbox_tools":          "farebox runs no code",
	"vector_store_registry":  "farebox keeps no documents",
	"callback_settings":      "the log and /metrics have every request",
	"files_settings":         "farebox has no files API",
	"finetune_settings":      "farebox has no fine-tuning API",
	"prompts":                "farebox keeps no prompts; characters are the nearest",
	"assistant_settings":     "farebox has no assistants API",
	"model_group_alias":      "write aliases: of a model",
	"pass_through_endpoints": "farebox forwards no other paths",
}

// isTrue reads a boolean in the forms of YAML 1.1.
func isTrue(text string) bool {
	return slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(text))
}

func isPrice(text string) bool {
	_, err := config.ParsePrice(strings.TrimSpace(text))
	return err == nil
}

// settings reads litellm_settings.
func (t *litellm) settings(g group) {
	t.timeout = g.number("request_timeout")
	if isTrue(g.text("json_logs")) {
		t.blocks = append(t.blocks, "log: { format: json }")
	}
	if budget := g.number("max_budget"); budget > 0 {
		t.note("litellm_settings.max_budget %s: farebox has no budget of the whole gateway; balances of accounts are spent, never more", usd(budget))
	}
	_ = g.take("budget_duration")
	for _, key := range []string{"default_key_generate_params", "upperbound_key_generate_params", "default_internal_user_params", "default_team_params"} {
		p := g.group(key)
		if budget := p.number("max_budget"); budget > 0 {
			period := periodOf(p.text("budget_duration"))
			t.note("litellm_settings.%s.max_budget becomes a limit of each key that you create: %s USD, period %s", key, usd(budget), period)
			t.commands = append(t.commands, fmt.Sprintf("key create --account NAME --limit-usd %s --limit-period %s", usd(budget), period))
		}
		for _, rest := range p.rest() {
			t.note("litellm_settings.%s.%s is not carried over: requests and tokens a minute are limited by class, in limits.tiers", key, rest)
		}
	}
	for _, key := range []string{"set_verbose", "num_retries", "drop_params", "modify_params", "telemetry", "turn_off_message_logging", "redact_user_api_key_info"} {
		_ = g.take(key) // farebox does so by itself, or it has no effect on clients
	}
	for _, key := range g.rest() {
		reason := "farebox has nothing like it"
		switch {
		case strings.Contains(key, "callback"):
			reason = "the log and /metrics have every request (config/deploy/README.md)"
		case strings.Contains(key, "cache"):
			reason = "farebox does not answer from a cache; an Idempotency-Key repeats an answer"
		case strings.Contains(key, "fallbacks"):
			reason = fallbackReason
		}
		t.note("litellm_settings.%s is not carried over: %s", key, reason)
	}
}

const fallbackReason = "a request is answered by the model it names, at its price; for another server of the same model add a target with " +
	"priority: 1, and clients may send fallbacks"

// router reads router_settings.
func (t *litellm) router(g group) {
	if s := g.number("timeout"); s > 0 {
		t.timeout = s
	}
	t.failures, t.cooldown = g.whole("allowed_fails"), g.number("cooldown_time")
	for alias, of := range g.group("model_group_alias") {
		name, _ := of.(string)
		if more, ok := of.(map[string]any); ok {
			name = group(more).text("model")
		}
		t.aliases[name] = append(t.aliases[name], alias)
	}
	if host := variables(g.text("redis_host")); host != "" {
		block := fmt.Sprintf("redis:\n  addresses: [%s]\n", quoted(host+":"+cmp.Or(variables(g.text("redis_port")), "6379")))
		if p := variables(g.text("redis_password")); p != "" {
			block += "  password: " + scalar(p) + "\n"
		}
		t.blocks = append(t.blocks, block)
	}
	switch s := g.text("routing_strategy"); s {
	case "", "simple-shuffle":
	default:
		t.note("router_settings.routing_strategy %s is not carried over: targets share requests by weight, and rest after failures", s)
	}
	for _, key := range []string{"num_retries", "enable_pre_call_checks", "set_verbose", "retry_after", "stream_timeout"} {
		_ = g.take(key)
	}
	for _, key := range g.rest() {
		reason := "farebox has nothing like it"
		if strings.Contains(key, "fallbacks") {
			reason = fallbackReason
		}
		t.note("router_settings.%s is not carried over: %s", key, reason)
	}
}

// general reads general_settings.
func (t *litellm) general(g group) {
	if g.take("master_key") != nil {
		t.note("general_settings.master_key is not carried over: farebox makes its own keys, and the command line needs none")
		t.commands = append(t.commands, "account create --name admin", "key create --account admin --type ADMIN")
	}
	if g.take("database_url") != nil {
		t.note("general_settings.database_url is not carried over: keys, teams and spending in LiteLLM's database stay there. For a ledger " +
			"that several nodes share write store: postgres://…, an empty database of its own")
	}
	reasons := map[string]string{
		"store_model_in_db":        "models in LiteLLM's database are not in the file",
		"alerting":                 "config/deploy/alerts.yaml has the alarms",
		"max_parallel_requests":    "limits.tiers limits accounts",
		"pass_through_endpoints":   "farebox forwards no other paths",
		"allowed_ips":              "filter addresses in front of farebox",
		"max_request_size_mb":      "write server.max_body",
		"disable_spend_logs":       "each charge is in the ledger",
		"custom_auth":              "farebox checks its own keys only",
		"enable_jwt_auth":          "farebox checks its own keys only",
		"background_health_checks": "targets rest after failures and are tried again",
		"health_check_interval":    "targets rest after failures and are tried again",
	}
	for _, key := range g.rest() {
		t.note("general_settings.%s is not carried over: %s", key, cmp.Or(reasons[key], "farebox has nothing like it"))
	}
}

// usd is an amount with two decimals, or six.
func usd(f float64) string {
	r, _ := new(big.Rat).SetString(fmt.Sprintf("%.6f", f))
	text := strings.TrimRight(r.FloatString(6), "0")
	return strings.TrimSuffix(text, ".")
}

var (
	days = regexp.MustCompile(`^(1d|24h|86400s?)$`)
	// envWord is how LiteLLM names an environment variable.
	envWord = regexp.MustCompile(`^os\.environ/([A-Za-z_][A-Za-z0-9_]*)$`)
)

// periodOf is the period of a key's limit for one of LiteLLM's durations.
func periodOf(text string) string {
	switch {
	case text == "":
		return "LIFETIME"
	case days.MatchString(text):
		return "EPOCH"
	}
	return "MONTH"
}

// variables turns os.environ/NAME into ${NAME}. Other text with ${ in it is meant literally.
func variables(text string) string {
	if found := envWord.FindStringSubmatch(text); found != nil {
		return "${" + found[1] + "}"
	}
	return strings.ReplaceAll(text, "${", "$${")
}
