//go:build !unix

package proxy

import (
	"net"
	"os"
)

// poller has nothing to ask where there is no poll: departed clients are
// noticed when a write to them fails, phases by the clock as everywhere.
type poller struct{}

func (*poller) sweep([]seat, bool) {}

func rawFD(net.Conn) int { return fdNone }

func quiet(int) bool { return true }

func readNow(int, []byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func sendQueue(int) int { return -1 }
