package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"farebox/config/onchain"
	"farebox/providers/rpc"
	"farebox/proxy"
)

const (
	// viewWait bounds the time of nodes for all questions of a view.
	viewWait = 20 * time.Second
	// moreAfter is when a further node is asked beside those that have not answered.
	moreAfter = 2 * time.Second
	// soundFor is how long the check of a node's chain and token holds.
	soundFor = 10 * time.Minute
)

// ErrUnknown says that the state is not known, since too few nodes answered. Where they
// do not agree it is onchain.ErrDisagree.
var ErrUnknown = errors.New("the nodes do not confirm the state of the chain")

// witnesses are the nodes of a chain.
type witnesses struct {
	network *rpc.Network
	proxy   *proxy.Proxy
	need    int // how many must agree
	// check is for a node that was not asked before; its error is the reason against the
	// node.
	check func(ctx context.Context, n *node) error

	mu    sync.Mutex
	sound map[string]time.Time // when a node was checked, by its name
}

// node is one of them.
type node struct {
	name string
	// ask gives the result of one call, which has at most so many bytes. params are JSON.
	ask func(ctx context.Context, method, params string, most int) ([]byte, error)
}

func (w *witnesses) node(u *rpc.Node) *node {
	return &node{u.Name, func(ctx context.Context, method, params string, most int) ([]byte, error) {
		return u.Call(ctx, w.proxy, method, params, most)
	}}
}

// checked says that a node is on the chain, with the token that we expect.
func (w *witnesses) checked(ctx context.Context, n *node) error {
	w.mu.Lock()
	last := w.sound[n.name]
	w.mu.Unlock()
	if time.Since(last) < soundFor {
		return nil
	}
	if err := w.check(ctx, n); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sound[n.name] = time.Now()
	return nil
}

// view is the answer of one node.
type view[T any] struct {
	name string
	says T
	err  error
}

// agreed asks nodes for their views until enough of them have the same, and gives the
// views of all that do.
func agreed[T any](ctx context.Context, w *witnesses, look func(context.Context, *node) (T, error),
	same func(a, b T) bool) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	waiting := w.network.Witnesses()
	answers := make(chan view[T], len(waiting))
	under := 0
	start := func() {
		if len(waiting) == 0 {
			return
		}
		n := w.node(waiting[0])
		waiting = waiting[1:]
		under++
		go func() { answers <- looked(ctx, w, n, look) }()
	}
	for range w.need {
		start()
	}
	more := time.NewTicker(moreAfter)
	defer more.Stop()
	var views []view[T]
	for under > 0 {
		select {
		case v := <-answers:
			under--
			views = append(views, v)
			group, most := majority(views, same)
			if most && len(group) >= w.need {
				return group, nil
			}
			if len(group)+under < w.need || !most && under == 0 {
				start()
			}
		case <-more.C:
			start()
		case <-ctx.Done():
			return nil, unknown(w, views, same)
		}
	}
	return nil, unknown(w, views, same)
}

func looked[T any](ctx context.Context, w *witnesses, n *node, look func(context.Context, *node) (T,
	error)) (v view[T]) {
	v.name = n.name
	defer func() {
		if why := recover(); why != nil { // its answer made our code panic: it counts as no answer
			v.err = errors.New("its answers cannot be read")
		}
	}()
	if v.err = w.checked(ctx, n); v.err == nil {
		v.says, v.err = look(ctx, n)
	}
	return v
}

// majority is the largest group of views that are the same; most: no other one is
// as large.
func majority[T any](views []view[T], same func(a, b T) bool) (group []T, most bool) {
	for i := range views {
		if views[i].err != nil {
			continue
		}
		var with []T
		for k := range views {
			if views[k].err == nil && same(views[i].says, views[k].says) {
				with = append(with, views[k].says)
			}
		}
		switch {
		case len(with) > len(group):
			group, most = with, true
		case len(with) == len(group) && !same(with[0], group[0]):
			most = false
		}
	}
	return group, most
}

// unknown names the nodes without a useful answer.
func unknown[T any](w *witnesses, views []view[T], same func(a, b T) bool) error {
	var why []string
	reported := 0
	for _, v := range views {
		if v.err != nil {
			why = append(why, fmt.Sprintf("%s: %v", v.name, v.err))
		} else {
			reported++
		}
	}
	kind := ErrUnknown
	if group, _ := majority(views, same); reported > len(group) {
		kind = onchain.ErrDisagree
		why = append(why, fmt.Sprintf("%d say something else than %d", reported-len(group), len(group)))
	}
	if missing := len(w.network.Nodes) - len(views); missing > 0 {
		why = append(why, fmt.Sprintf("%d did not answer in time or are on another chain", missing))
	}
	return fmt.Errorf("%w (%s, of which %d must agree): %s", kind, w.network.Name, w.need, strings.Join(why, "; "))
}
