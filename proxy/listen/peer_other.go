//go:build !linux

package listen

import "net"

// PeerUID is not known on this system.
func PeerUID(net.Conn) (uid int, ok bool) { return 0, false }
