package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// slowPage is how long a page takes whose path begins with /slow.
const slowPage = 3 * time.Second

// serve serves pages on two addresses of this machine, so that they are two hosts for
// the gateway.
func (a *arena) serve() (closeAll func(), err error) {
	server := &http.Server{ReadHeaderTimeout: slowPage, Handler: http.HandlerFunc(page)}
	closeAll = func() { _ = server.Close() }
	if !a.o.Pages {
		return closeAll, nil
	}
	for i, host := range []string{"127.0.0.1", "127.0.0.2"} {
		ln, err := net.Listen("tcp", host+":0")
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("cannot serve pages to attack with: %w", err)
		}
		a.sites[i] = "http://" + ln.Addr().String()
		go func() { _ = server.Serve(ln) }()
	}
	return closeAll, nil
}

// page has the last part of its address in its text.
func page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/slow") {
		wait(r.Context(), slowPage)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<html><title>A page</title><body><article><h1>A page</h1><p>"+r.URL.Path[strings.LastIndexByte(
		r.URL.Path, '/')+1:]+" "+strings.Repeat("Rain falls on the old roof of the mill. ", 20)+"</p></article></body></html>")
}
