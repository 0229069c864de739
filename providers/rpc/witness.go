package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"farebox/proxy"
)

// witnessWait bounds the answer of a node to a call of our own.
const witnessWait = 5 * time.Second

// CallError is an error in a node's answer.
type CallError struct {
	Code    int64
	Message string // as in the answer, clipped
}

func (e *CallError) Error() string {
	return "it answers with error " + strconv.FormatInt(e.Code, 10) + ": " + strconv.Quote(e.Message)
}

// clippedMessage bounds the stored part of a node's error message.
const clippedMessage = 200

// Errors of a node without an answer.
var (
	errMute   = errors.New("it gave no usable answer")
	errLong   = errors.New("its answer is too long")
	errDenied = errors.New("it does not serve the method (without)")
)

// Witnesses are the nodes that are trusted about the chain, in the order in which they are
// to be asked: those first that answer at the moment. Nodes on another chain are not among
// them.
func (n *Network) Witnesses() []*Node {
	now := time.Now().UnixNano()
	list := make([]*Node, 0, len(n.Nodes))
	for _, u := range n.Nodes {
		if !u.odd.Load() {
			list = append(list, u)
		}
	}
	slices.SortStableFunc(list, func(a, b *Node) int {
		return int(a.Breaker.State(now)) - int(b.Breaker.State(now))
	})
	return list
}

// Call asks this node, and no other, for one call, and gives the result as it is in the
// answer, which may have at most so many bytes. params are a JSON array. The call does not
// count for the node's health and pace: our calls differ from those of customers.
func (n *Node) Call(ctx context.Context, p *proxy.Proxy, method, params string, most int) (result []byte, err error) {
	if m := n.of.Family.Find([]byte(method)); m != nil && n.denied[m.Index] {
		return nil, errDenied
	}
	wait := witnessWait
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until))
	}
	if ctx.Err() != nil || wait <= 0 {
		return nil, context.Cause(ctx)
	}
	a := attempts.Get().(*attempt)
	defer a.release()
	defer func() {
		if why := recover(); why != nil { // its answer made our code panic
			result, err = nil, errMute
		}
	}()
	q := ownQuestion(nil, method, params)
	q.wait, q.within = wait, wait
	if r, ok := a.open(&ClientContext{Proxy: p, Alone: true}, n, q); !ok {
		return nil, fmt.Errorf("%w (%s)", errMute, r.cause)
	}
	if err := a.read(most); err != nil {
		return nil, err
	}
	if a.judge.Answers[0].Failed() {
		return nil, callError(a.buf)
	}
	if a.x.Status() >= 300 {
		return nil, fmt.Errorf("%w (status %d)", errMute, a.x.Status())
	}
	return a.result(), nil
}

func callError(answer []byte) *CallError {
	code, message := gjson.GetBytes(answer, "error.code"), gjson.GetBytes(answer, "error.message").String()
	return &CallError{code.Int(), message[:min(len(message), clippedMessage)]}
}
