package listen

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// Socket listens on host:port or unix:/path. A socket file that a crashed process
// left behind is replaced; one that is served is not.
func Socket(addr string) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		var plain net.ListenConfig // sockets of multipath TCP take no filter, see Last
		plain.SetMultipathTCP(false)
		return plain.Listen(context.Background(), "tcp", addr)
	}
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		ln, err = net.Listen("unix", path)
	}
	return ln, err
}

// abandoned says that path is a socket nobody listens on.
func abandoned(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
