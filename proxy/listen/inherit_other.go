//go:build !unix

package listen

import (
	"errors"
	"net"
	"os"
)

// HandOverSignal asks for HandOver; nil if this system has none.
var HandOverSignal os.Signal

// Inherit finds nothing on this system.
func Inherit() (*Inherited, error) { return nil, nil }

// HandOver is not possible on this system.
func HandOver(net.Listener, ...net.Listener) (int, <-chan error, error) {
	return 0, nil, errors.New("sockets cannot be handed over on this system")
}
