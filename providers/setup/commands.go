package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"farebox/config"
	"farebox/config/prices"
)

// Commands are those that write a config or help to.
func Commands() []*cobra.Command {
	return []*cobra.Command{initCommand(), importCommand(), pricesCommand()}
}

// save writes a config that passes `farebox check`, readable by its owner alone. It replaces a file only with force.
func save(file, text string, force bool) error {
	if _, err := config.Parse(file, []byte(text), anything); err != nil {
		return fmt.Errorf("the config would have mistakes: %w", err)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(file, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: name another file with -o, or replace it with --force", file)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// anything is a value for variables of the environment that need not be set yet.
func anything(name string) (string, bool) {
	if value, ok := os.LookupEnv(name); ok && value != "" {
		return value, true
	}
	for _, form := range []struct{ part, value string }{
		{"BASE", "https://host.example"}, {"URL", "https://host.example"}, {"ENDPOINT", "https://host.example"}, {"REGION", "us-east-1"},
		{"LOCATION", "global"}, {"PROJECT", "project-1"}, {"ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"}, {"HOST", "host.example"},
		{"PORT", "6379"}, {"VERSION", "2024-10-21"},
	} {
		if strings.Contains(strings.ToUpper(name), form.part) {
			return form.value, true
		}
	}
	return "value", true
}

var percent = regexp.MustCompile(`^(\d{1,4})(?:\.(\d{1,3}))?%?$`)

// readMargin reads percent that are added to list prices, and gives the factor.
func readMargin(text string) (*big.Rat, error) {
	found := percent.FindStringSubmatch(strings.TrimSpace(text))
	if found == nil {
		return nil, fmt.Errorf("%q is not a margin; expected percent from 0 to 9900, such as 20", text)
	}
	r, _ := new(big.Rat).SetString(strings.TrimSuffix(strings.TrimSpace(text), "%"))
	r.Quo(r, big.NewRat(100, 1)).Add(r, big.NewRat(1, 1))
	if r.Cmp(big.NewRat(100, 1)) > 0 {
		return nil, fmt.Errorf("%q is not a margin; expected percent from 0 to 9900, such as 20", text)
	}
	return r, nil
}

// openList reads the list of prices of a file, or the one in the binary.
func openList(file string) (*prices.List, error) {
	l, err := prices.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the list of prices %s: %w; expected a file in the form of LiteLLM's "+
			"model_prices_and_context_window.json", file, err)
	}
	return l, nil
}

// named is how a list is named in comments.
func named(l *prices.List) string {
	if l.Date == "" {
		return l.Source
	}
	return l.Source + ", read on " + l.Date
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
