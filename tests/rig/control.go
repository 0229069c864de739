package rig

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strconv"
	"time"
)

// operate asks the running gateway for an operation through the control socket in its store, as
// its command line does. A command costs a process, and tests ask for accounts thousands of
// times. Not done: the gateway is down, or its store has no socket, and a command must do it.
func (g *Gateway) operate(op string, query, answer any) (done bool) {
	g.T.Helper()
	if g.Done == nil || !g.Running() {
		return false
	}
	dir, err := os.Open(g.Store)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	// The path of a socket has at most 104 bytes.
	conn, err := net.Dial("unix", "/proc/self/fd/"+strconv.Itoa(int(dir.Fd()))+"/control.sock")
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	res, err := exchange(conn, op, query)
	if err != nil {
		return false // it ends just now
	}
	if res.Error != "" {
		g.T.Fatalf("cannot %s: %s", op, res.Error)
	}
	if err := json.Unmarshal(res.Answer, answer); err != nil {
		g.T.Fatalf("cannot read the answer of %s: %v\n%s", op, err, res.Answer)
	}
	return true
}

type controlAnswer struct {
	Error  string
	Answer json.RawMessage
}

func exchange(conn net.Conn, op string, query any) (res controlAnswer, err error) {
	line, err := json.Marshal(map[string]any{"op": op, "query": query})
	if err != nil {
		return res, err
	}
	if err := conn.SetDeadline(time.Now().Add(CallLimit)); err != nil {
		return res, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return res, err
	}
	answer, err := bufio.NewReader(conn).ReadBytes('\n')
	return res, errors.Join(err, json.Unmarshal(answer, &res))
}
