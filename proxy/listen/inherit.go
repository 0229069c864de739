package listen

import "net"

// Inherited is a listening socket that was open before this process began:
// systemd's, or that of the process before, which hands over. Connections that
// come while nobody accepts wait in it instead of being refused.
type Inherited struct {
	Listener        net.Listener
	Further         []net.Listener // those that the process before had beside it
	FromPredecessor bool
	took            func()
}

// Took tells the process before that this one will serve: it stops accepting.
func (i *Inherited) Took() {
	if i.took != nil {
		i.took()
	}
}
