package operations

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// "I forgot -c, credited an empty ledger that nobody had asked for, and verify
// said that all was well."
func TestForgottenConfigMakesNoLedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, line := range []string{"account list", "account create --name a", "account credit a 5", "key list",
		"key create --account a", "verify", "backup b", "migrate", "verify --store other"} {
		out, err := rig.RunIn(t, dir, strings.Fields(line)...)
		if rig.ExitCode(err) != 1 || !strings.Contains(out, "there is no ledger in ") ||
			!strings.Contains(out, "-c FILE") && !strings.Contains(out, "make one") {
			t.Errorf("%s: %v, %s", line, err, out)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("there are %v, %v", list, err)
	}
	// With --store, commands work before the server first starts, and name the next step.
	out, err := rig.RunIn(t, dir, "account", "create", "--name", "big corp", "--store", "here")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	next := regexp.MustCompile(`next: +\S+ (.*)`).FindStringSubmatch(out)
	if next == nil || next[1] != "account credit 'big corp' 100 --store here" {
		t.Errorf("the next step is %q in %s", next, out)
	}
	if out, err := rig.RunIn(t, dir, "account", "credit", "big corp", "100", "--store", "here"); err != nil ||
		!strings.Contains(out, "100 USD") {
		t.Errorf("%v: %s", err, out)
	}
}

// "The script had a typo and went on as if nothing were wrong."
func TestMisspeltCommandsFailAndSayHow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for line, words := range map[string]string{
		"bogus":                      "usage: farebox",
		"account bogus":              `unknown command "bogus" for "farebox account"`,
		"key bogus":                  "usage: farebox key",
		"node bogus":                 "usage: farebox node",
		"account credit a -5":        "usage: farebox account credit ACCOUNT AMOUNT",
		"account credit a":           "usage: farebox account credit ACCOUNT AMOUNT",
		"account create":             "usage: farebox account create --name NAME",
		"account refund a 5":         "usage: farebox account refund ACCOUNT AMOUNT --ref REF",
		"key revoke":                 "usage: farebox key revoke ID",
		"check":                      "usage: farebox check -c FILE",
		"serve --listen nonsense":    "host:port",
		"restore " + dir + "/nobody": "no such file",
	} {
		out, err := rig.RunIn(t, dir, strings.Fields(line)...)
		if rig.ExitCode(err) != 1 || !strings.Contains(out, words) || strings.Contains(out, "another farebox running") {
			t.Errorf("%s: %v, %s", line, err, out)
		}
	}
	// Groups alone and mistakes in valid command lines show no usage.
	if out, err := rig.RunIn(t, dir, "account"); err != nil || !strings.Contains(out, "Available Commands") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := rig.RunIn(t, dir, "check", "-c", filepath.Join(dir, "none.yaml")); rig.ExitCode(err) != 1 ||
		strings.Contains(out, "usage:") {
		t.Errorf("%v: %s", err, out)
	}
}
