package wallet

import (
	"flag"
	"testing"

	"farebox/tests/rig"
)

// atOnce is how many of these tests run at a time: they wait for chains, leases and
// second looks nearly all of their time.
const atOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", atOnce)
	rig.Main(m)
}
