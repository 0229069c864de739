// Package operator tests the operators' API from outside: its roles, its operations and attacks on it.
package operator

import (
	"testing"

	"farebox/tests/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
