// Package teetest helps tests of enclaves: it has attestations that were captured of real
// services. They are read from their folder, and are not part of the repository.
package teetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Capture is an attestation of a real service.
type Capture struct {
	Name   string
	Report []byte // as the service gave it
	Nonce  string // as it was asked
	At     time.Time
	// Collateral is Intel's collateral of that time, as a file; nil: it was not kept, and
	// the quote was cut short.
	Collateral []byte
}

// Text is a text of the report; empty if absent.
func (c *Capture) Text(path string) string { return gjson.GetBytes(c.Report, path).Str }

// least is how many captures there are.
const least = 5

// Captures reads those of the folder TEE_FIXTURES. Without one the test is skipped.
func Captures(t testing.TB) (list []Capture) {
	t.Helper()
	dir := os.Getenv("TEE_FIXTURES")
	if dir == "" {
		t.Skip("TEE_FIXTURES names no folder of captured attestations")
	}
	files, err := filepath.Glob(filepath.Join(dir, "attestation_*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := gjson.ParseBytes(raw)
		if !f.Get("attestation").Exists() {
			continue
		}
		c := Capture{Name: filepath.Base(file), Report: []byte(f.Get("attestation").Raw), Nonce: f.Get("_client_nonce").Str,
			At: time.Unix(f.Get("_capture_epoch").Int(), 0)}
		c.Collateral, err = os.ReadFile(strings.Replace(file, "attestation_", "collateral_", 1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	if len(list) < least {
		t.Fatalf("%d captures in TEE_FIXTURES", len(list))
	}
	return list
}
