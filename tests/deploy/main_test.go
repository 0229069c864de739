package deploy

import (
	"testing"

	"farebox/tests/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
