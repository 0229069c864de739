package listen

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
	short, release, err := ShortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	ln, err := net.Listen("unix", short)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(short) {
		if err := os.Remove(short); err != nil {
			return nil, err
		}
		ln, err = net.Listen("unix", short)
	}
	if err == nil && short != path { // that name ends with release
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
	}
	return ln, err
}

// unixPathMost is less than the shortest limit of a socket's path (104 bytes).
const unixPathMost = 100

const openFiles = "/proc/self/fd/"

// ShortPath gives a name of path that is short enough for a socket, until release.
func ShortPath(path string) (short string, release func(), err error) {
	if len(path) <= unixPathMost || runtime.GOOS != "linux" {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return openFiles + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path), func() { _ = dir.Close() }, nil
}

// Shortened says that a name is one of ShortPath.
func Shortened(path string) bool { return strings.HasPrefix(path, openFiles) }

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
