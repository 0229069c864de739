//go:build !linux

package listen

import "net"

// Last is for Linux; elsewhere the connections in the queue of a socket end with it.
func Last(net.Listener) {}
