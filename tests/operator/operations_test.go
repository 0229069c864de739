package operator

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
)

// step is a call of an operation. Names in brackets are values of earlier answers: [key].
type step struct {
	operation, path, body string
	status                int
	keep                  string // name=path of values for later calls
}

// steps call every operation, most of them with success.
var steps = []step{
	{"get_openapi", "/openapi.json", "", 200, ""},
	{"get_self", "/self", "", 200, ""},
	{"get_health", "/health", "", 200, ""},
	{"list_upstreams", "/upstreams", "", 200, ""},
	{"list_models", "/models?node=1", "", 200, ""},
	{"check_upstream", "/upstreams/only/check", "", 200, ""},
	{"get_balance", "/upstreams/only/balance", "", 200, ""},
	{"get_balance", "/upstreams/none/balance", "", 404, ""},
	{"drain_upstream", "/upstreams/only/drain", `{"reason":"maintenance"}`, 200, ""},
	{"offline_upstream", "/upstreams/only/offline", `{"model":"sim-chat"}`, 200, ""},
	{"resume_upstream", "/upstreams/only/resume", "", 200, ""},
	{"resume_upstream", "/upstreams/none/resume", "", 404, ""},
	{"get_config", "/config", "", 200, ""},
	{"check_config", "/config/check", `{"text":"models: 7"}`, 200, ""},
	{"compare_config", "/config/difference", "", 200, ""},
	{"compare_config", "/config/difference", `{"text":"models: 7"}`, 200, ""},
	{"reload_config", "/config/reload", "", 200, ""},
	{"profile", "/profiles/heap", "", 200, ""},
	{"create_account", "/accounts", `{"name":"acme"}`, 200, "account=id"},
	{"create_account", "/accounts", `{"name":"acme"}`, 409, ""},
	{"list_accounts", "/accounts", "", 200, ""},
	{"get_account", "/accounts/acme", "", 200, "version=version"},
	{"change_account", "/accounts/acme", `{"company":"Acme","email":"a@example.com"}`, 200, ""},
	{"credit_account", "/accounts/[account]/credits", `{"currency":"USD","amount":"20","ref":"c1"}`, 200, ""},
	{"debit_account", "/accounts/acme/debits", `{"currency":"USD","amount":"2","ref":"d1","memo":"typo"}`, 200, ""},
	{"refund_account", "/accounts/acme/refunds", `{"currency":"USD","amount":"1","ref":"f1"}`, 200, ""},
	{"set_allowance", "/accounts/acme/allowance", `{"daily":"5"}`, 200, ""},
	{"read_statement", "/accounts/acme/statement?currency=USD", "", 200, ""},
	{"list_requests", "/requests?account=acme&flag=failed", "", 200, ""},
	{"get_request", "/requests/00000000000000000000000000000000", "", 404, ""},
	{"list_refusals", "/refusals?account=acme", "", 200, ""},
	{"money_in", "/money-in", "", 200, ""},
	{"liability", "/liability", "", 200, ""},
	{"revenue", "/revenue?by=account", "", 200, ""},
	{"report_usage", "/usage?by=day", "", 200, ""},
	{"create_key", "/accounts/acme/keys", `{"type":"INFERENCE","description":"first"}`, 200, "key=info.id"},
	{"list_keys", "/keys?account=acme", "", 200, ""},
	{"change_key", "/keys/[key]", `{"description":"second","limit_usd":"2.5","limit_diem":"none"}`, 200, ""},
	{"rotate_key", "/keys/[key]/rotate", `{"hours":24}`, 200, ""},
	{"revoke_key", "/keys/[key]/revoke", "", 200, ""},
	{"revoke_key", "/keys/none/revoke", "", 404, ""},
	{"suspend_account", "/accounts/acme/suspend", "", 200, ""},
	{"resume_account", "/accounts/acme/resume", "", 200, ""},
	{"add_review", "/reviews", `{"slug":"captain-elara","rating":5,"account":"acme"}`, 200, "review=id"},
	{"list_reviews", "/reviews", "", 200, ""},
	{"hide_review", "/reviews/[review]/hide", `{"hide":true}`, 200, ""},
	{"list_jobs", "/jobs?limit=10", "", 200, ""},
	{"get_job", "/jobs/none", "", 404, ""},
	{"refund_job", "/jobs/none/refund", "", 404, ""},
	{"link_wallet", "/wallets/0x00000000000000000000000000000000000000aa/link", `{"account":"acme"}`, 200, ""},
	{"list_wallets", "/wallets?limit=10", "", 200, ""},
	{"get_wallet", "/wallets/0x00000000000000000000000000000000000000aa", "", 200, ""},
	{"unlink_wallet", "/wallets/0x00000000000000000000000000000000000000aa/link", "", 200, ""},
	{"list_payments", "/payments?limit=10", "", 200, ""},
	{"get_payment", "/payments/none", "", 404, ""},
	{"resolve_payment", "/payments/none/resolve", `{"credit":true,"reason":"seen"}`, 404, ""},
	{"assign_payment", "/payments/assign", `{"to":"acme","reason":"seen","payment":{"id":"pay_none","network":"none",` +
		`"asset":"none","payer":"none","amount":"1","units":1,"final":true,"order":"","transaction":"none"}}`, 200, ""},
	{"list_nodes", "/nodes", "", 409, ""},
	{"release_node", "/nodes/other/release", "", 409, ""},
	{"create_token", "/tokens", `{"name":"ci","role":"read-only","ends":"2040-01-01T00:00:00Z"}`, 200, "token=id"},
	{"list_tokens", "/tokens?limit=1", "", 200, ""},
	{"revoke_token", "/tokens/[token]/revoke", "", 200, ""},
	{"close_account", "/accounts/acme/close", `{"with_balance":true}`, 200, ""},
	{"erase_account", "/accounts/[account]/erase", "", 200, ""},
	{"list_audit", "/audit?limit=2", "", 200, ""},
	{"verify", "/verify", "", 200, ""},
	{"get_verification", "/verify", "", 200, ""},
	{"read_backup", "/backup", "", 200, ""},
	{"back_up", "/backup", `{"path":"[folder]/backup"}`, 200, ""},
}

// Every operation is called, and answers as the OpenAPI document says.
func TestEveryOperationAnswersAsItIsDescribed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var document any
	text := d.must("GET", "/openapi.json", "").Raw
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	known := map[string]operation{}
	for _, o := range d.operations() {
		known[o.name] = o
	}
	called := map[string]bool{}
	kept := map[string]string{"folder": filepath.ToSlash(t.TempDir())}
	for _, s := range steps {
		o, ok := known[s.operation]
		if !ok {
			t.Errorf("there is no operation %s", s.operation)
			continue
		}
		called[s.operation] = true
		for name, value := range kept {
			s.path, s.body = strings.ReplaceAll(s.path, "["+name+"]", value), strings.ReplaceAll(s.body, "["+name+"]", value)
		}
		var headers []string
		if o.method == "PATCH" && kept["version"] != "" {
			headers = append(headers, `If-Match: "`+kept["version"]+`"`)
		}
		status, _, answer := d.as("boss", o.method, s.path, s.body, headers...)
		if status != s.status {
			t.Errorf("%s %s %s is answered %d %s", o.method, s.path, s.body, status, answer)
			continue
		}
		at := "/200"
		if status != 200 {
			at = "/4XX"
		}
		schema := "openapi.json#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(o.path) + "/" +
			strings.ToLower(o.method) + "/responses" + at + "/content/application~1json/schema"
		if s.operation == "profile" || s.operation == "get_openapi" || s.operation == "read_backup" {
			continue
		}
		compiled, err := compiler.Compile(schema)
		if err != nil {
			t.Errorf("%s: %v", s.operation, err)
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		if err != nil {
			t.Errorf("%s: %v: %s", s.operation, err, answer)
		} else if err := compiled.Validate(value); err != nil {
			t.Errorf("%s: %v\n%s", s.operation, err, answer)
		}
		if name, path, ok := strings.Cut(s.keep, "="); ok {
			if kept[name] = gjson.Get(answer, path).String(); kept[name] == "" {
				t.Errorf("%s has no %s: %s", s.operation, path, answer)
			}
		}
	}
	for name := range known {
		if !called[name] {
			t.Errorf("no step calls %s", name)
		}
	}
}

// A change of a version that is not the latest is refused, and one that names none.
func TestAPatchNamesItsVersion(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("POST", "/accounts", `{"name":"a"}`)
	_, header, _ := d.as("boss", "GET", "/accounts/a", "")
	version := header.Get("ETag")
	patch := func(headers ...string) int {
		status, _, _ := d.as("boss", "PATCH", "/accounts/a", `{"company":"A"}`, headers...)
		return status
	}
	if got := []int{patch(), patch("If-Match: " + version), patch("If-Match: " + version), patch("If-Match: *")}; got[0] != 428 ||
		got[1] != 200 || got[2] != 412 || got[3] != 412 {
		t.Errorf("without a version, with %s, again, with any: %v", version, got)
	}
}
