// Package listen opens the sockets for clients.
//
// A Socket is a new one, on TCP or in the file system; an [Inherited] one was open
// before this process began (systemd's, or that of a process that hands over with
// [HandOver]), so that no client is refused meanwhile. A [Certificate] is read
// again when its files change. A [Front] knows the trusted proxies in front, which report the
// addresses of clients: by a [Preface], the PROXY header of a connection, or by X-Forwarded-For.
// [BoundBuffers] limits the kernel's buffers for a client.
//
// Out of scope: requests. Their connections are package proxy's.
package listen
