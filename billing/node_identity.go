package billing

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"farebox/billing/disk"
	"farebox/billing/journal"
	"farebox/billing/store"
)

// identityFile holds who the node of a ledger directory is. The journal beside
// it and the leases in the store belong to this identity.
const identityFile = "node"

var identityForm = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// loadIdentity reads the identity of a node, or makes one at its first start.
func loadIdentity(dir string) (string, error) {
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	id := strings.TrimSpace(string(b))
	if err == nil && !identityForm.MatchString(id) {
		return "", fmt.Errorf("cannot use %s: it does not hold the identity of a node; restore it from a backup", path)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return id, err
	}
	segments, err := disk.List(filepath.Join(dir, journalSub), journal.Suffix)
	if err != nil {
		return "", err
	}
	if len(segments) > 0 {
		return "", fmt.Errorf("cannot find %s although there is a journal: restore it from a backup, or start with "+
			"an empty node.dir", path)
	}
	if _, err := os.Stat(filepath.Join(dir, store.DatabaseFile)); err == nil {
		return "", fmt.Errorf("cannot use %s as node.dir: it holds an embedded ledger; choose an empty directory", dir)
	}
	id = rand.Text()
	return id, disk.WriteSecret(path, []byte(id+"\n"))
}
