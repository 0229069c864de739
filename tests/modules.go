//go:build modules

// Package tests is never built: it names the modules that `go test farebox/...` needs of this folder's module beside
// its own imports, so that `go mod tidy` keeps them. The law of the modules compares the versions with the product's.
package tests

import (
	_ "farebox"

	_ "github.com/anishathalye/porcupine"
)
