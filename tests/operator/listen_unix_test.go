//go:build unix

package operator

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// onSocket makes a call through a Unix socket.
func onSocket(t *testing.T, path, method, target, body string, headers ...string) (status int, answer string) {
	t.Helper()
	c := &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(path) }}}
	req, err := http.NewRequest(method, "http://desk/operator/v1"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Farebox-Operator", "1")
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// dial connects to a socket whose path may be longer than the system takes.
func dial(path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// By default the user that runs farebox is the owner, on a socket beside the ledger. No other user can open
// it, and it goes with the process.
func TestTheSocketIsTheOwners(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	for _, folder := range []string{"books", strings.Repeat("long/", 30) + "books"} {
		store := filepath.Join(t.TempDir(), folder)
		if err := os.MkdirAll(filepath.Dir(store), 0o700); err != nil {
			t.Fatal(err)
		}
		g := rig.StartGatewayOn(t, store, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
		path := filepath.Join(store, "operator.sock")
		st, err := os.Stat(path)
		if err != nil || st.Mode() != os.ModeSocket|0o600 {
			t.Fatalf("the socket is %v (%v)", st, err)
		}
		if status, answer := onSocket(t, path, "GET", "/self", ""); status != 200 ||
			!strings.Contains(answer, fmt.Sprintf(`"name":"uid %d","role":"owner","from":"operator socket"`, os.Getuid())) {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer := onSocket(t, path, "POST", "/accounts", `{"name":"a"}`); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
		// A header changes nothing, and a wrong token is not the owner's.
		if status, _ := onSocket(t, path, "GET", "/self", "", "Authorization: Bearer fbo_"+strings.Repeat("x", 32)); status != 401 {
			t.Errorf("a wrong token is answered %d", status)
		}
		g.Kill()
		g.Start() // the socket of a killed process is replaced
		if status, answer := onSocket(t, path, "GET", "/accounts", ""); status != 200 || !strings.Contains(answer, `"name":"a"`) {
			t.Errorf("%d %s", status, answer)
		}
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err == nil && len(folder) < 50 {
			t.Errorf("%s is still there", path)
		}
	}
}

// A taken port is an error that names the key, before anything is made.
func TestATakenPortIsAnError(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.NewGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+"\noperator: { listen: \""+ln.Addr().String()+"\" }\n")
	err = g.TryStart()
	if err == nil || !strings.Contains(g.Log()+g.Banner(), "operator.listen") || strings.Contains(g.Log(), "--listen") {
		t.Errorf("%v: %s", err, g.Log())
	}
	if _, err := os.Stat(g.Store); err == nil {
		t.Errorf("%s was made", g.Store)
	}
}

var pid = regexp.MustCompile(`"pid":(\d+)`)

// At USR2 no call of an operator is refused, on TCP and on the socket.
func TestTheSocketIsHandedOver(t *testing.T) {
	t.Parallel()
	for _, tcp := range []bool{true, false} {
		sim := rig.StartUpstream(t, upstream.Options{})
		text := strings.ReplaceAll(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "level: warn", "level: info")
		d := &desk{t: t}
		if tcp {
			d = deskOf(t, text)
		} else {
			d.Gateway = rig.StartGateway(t, text)
		}
		ask := func() {
			t.Helper()
			if tcp {
				if status, _, answer := d.as("boss", "GET", "/self", ""); status != 200 {
					t.Errorf("%d %s", status, answer)
				}
			} else if status, answer := onSocket(t, filepath.Join(d.Store, "operator.sock"), "GET", "/self", ""); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		}
		rig.Client.CloseIdleConnections()
		ask()
		d.Signal(syscall.SIGUSR2)
		for end := time.Now().Add(rig.CallLimit); !strings.Contains(d.Log(), "all charges are on disk") && time.Now().Before(end); {
			ask()
		}
		ask()
		found := pid.FindStringSubmatch(d.Log())
		if found == nil {
			t.Fatalf("no successor is named in the log:\n%s", d.Log())
		}
		ask()
		n, _ := strconv.Atoi(found[1])
		_ = syscall.Kill(n, syscall.SIGTERM)
		<-d.Done
	}
}
