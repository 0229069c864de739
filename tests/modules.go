//go:build modules

// Package tests is never built: it names what `go test farebox/...` needs of this folder's module beside what its own
// tests import, so that `go mod tidy` keeps it. The law of the modules compares the versions with the product's.
package tests

import (
	_ "farebox"

	_ "github.com/anishathalye/porcupine"
)
