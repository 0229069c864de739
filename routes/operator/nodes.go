package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"farebox/billing"
)

// Operations on processes speak for all nodes of the store. Each node answers with rows of its
// own; the one that was called puts them together.

// OnNode is the part of a query that names one node.
type OnNode struct {
	Node string `json:"node,omitempty"` // name or number; empty: all nodes
}

func (o OnNode) node() string { return o.Node }

// Who is the node of a row.
type Who struct {
	Node   string `json:"node"`
	Number uint32 `json:"number"`
}

func (w *Who) is(name string, number uint32) { w.Node, w.Number = name, number }

// Nodes are the rows of all nodes.
type Nodes[T any] struct {
	Items   []T      `json:"data"`
	Next    string   `json:"next_cursor"`
	Missing []string `json:"missing"` // nodes that did not answer
}

// Times that an operation waits for nodes. One that is stopped or cut off is given up after 2 s in any case.
const (
	waitForList = 2 * time.Second
	waitForWork = 10 * time.Second
)

// shared is a row that all nodes carry out. do is the part of one node.
func shared[Q interface{ node() string }, T any](d *API, info billing.OperationInfo, most time.Duration, do func(context.Context, billing.Act, Q) ([]T, error)) *row {
	info.Query, info.Answer = reflect.TypeFor[Q](), reflect.TypeFor[Nodes[T]]()
	r := newRow(info, func(ctx context.Context, act billing.Act, query []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(query, &q); err != nil {
			return nil, &invalid{"body", err.Error()}
		}
		return together[T](ctx, d, act, info.Name, q.node(), query, most)
	})
	r.here = func(ctx context.Context, act billing.Act, query []byte) (any, error) {
		var q Q
		text := json.NewDecoder(bytes.NewReader(query))
		text.DisallowUnknownFields()
		if err := text.Decode(&q); err != nil {
			return nil, &invalid{"body", err.Error()}
		}
		list, err := do(ctx, act, q)
		if list == nil {
			list = []T{}
		}
		return list, err
	}
	return r
}

// together asks the nodes and puts their rows together.
func together[T any](ctx context.Context, d *API, act billing.Act, name, node string, query []byte, most time.Duration) (all Nodes[T], err error) {
	all.Items = []T{}
	replies, missing, err := d.ledger.Ask(ctx, node, billing.Question{Operation: name, By: act.By, Query: query}, most)
	if err != nil {
		return all, err
	}
	for _, r := range replies {
		var list []T
		if err := json.Unmarshal(r.Body, &list); err != nil {
			d.log.Warn().Str("node", r.Node).Str("operation", name).Msg("the answer of a node cannot be read")
			missing = append(missing, r.Node)
			continue
		}
		for i := range list {
			any(&list[i]).(interface{ is(string, uint32) }).is(r.Node, r.Number)
		}
		all.Items = append(all.Items, list...)
	}
	all.Missing = missing
	return all, nil
}

// answerNode carries out another node's question, or this one's.
func (a *API) answerNode(ctx context.Context, q billing.Question) ([]byte, error) {
	for _, r := range a.rows {
		if r.Name != q.Operation || r.here == nil {
			continue
		}
		if q.By.Role < r.Right {
			return nil, fmt.Errorf("%w: %s needs the role %s", billing.ErrNotAllowed, r.Name, r.Right)
		}
		rows, err := r.here(ctx, billing.Act{By: q.By}, q.Query)
		if err != nil {
			return nil, err
		}
		return json.Marshal(rows)
	}
	return nil, errors.New("this node does not know the operation; it runs another version")
}
