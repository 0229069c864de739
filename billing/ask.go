package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"farebox/billing/store"
)

// Operations of a process speak for all nodes of a shared store. The nodes reach each other
// only through the store: a question is a row that the feed names (store.Questions).

const (
	askedAtOnce = 4 // questions that a node answers at a time
	// nodeTakes is how long a node has to take a question. One that did not is missing.
	nodeTakes = 2 * time.Second
	// goneMost is how long a node that ended without notice is named as missing.
	goneMost  = 10 * time.Minute
	askPause  = 20 * time.Millisecond
	replyMost = 4 << 20 // bytes
	askMost   = 1 << 20
)

// ErrNoNode is the name of a node that is not among those of the store.
var ErrNoNode = errors.New("there is no such node")

// Question is an operation of a process that nodes carry out.
type Question struct {
	Operation string          `json:"operation"`
	By        Actor           `json:"by"`
	Query     json.RawMessage `json:"query"`
}

// Reply is the answer of one node.
type Reply struct {
	Node   string
	Number uint32 // 1 on an embedded store
	Body   []byte // JSON
}

// asked answers the questions of other processes.
type asked struct {
	answer func(context.Context, Question) ([]byte, error)
	seats  chan struct{}
}

// OnQuestion has f answer the questions of this and of other nodes. It is for before the
// first of them.
func (l *Ledger) OnQuestion(f func(context.Context, Question) ([]byte, error)) {
	l.asked.Store(&asked{f, make(chan struct{}, askedAtOnce)})
}

// Ask has all nodes answer a question, or the one of a name or number, and names those that
// did not. It waits for a node that took the question until the time is over, and for others
// at most 2 s.
func (l *Ledger) Ask(ctx context.Context, node string, q Question, most time.Duration) (replies []Reply, missing []string, err error) {
	self, others, err := l.audience(node)
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(q)
	if err != nil || len(text) > askMost {
		return nil, nil, errors.Join(err, fmt.Errorf("%w: expected at most %d bytes", ErrQuery, askMost))
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	found := make(chan []Reply, 1)
	if len(others) > 0 {
		to := uint32(0)
		if node != "" {
			to = others[0].No
		}
		go func() { found <- l.askOthers(ctx, to, others, text, most) }()
	}
	if self {
		body, err := l.asked.Load().answer(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		name, number := l.nodeName()
		replies = append(replies, Reply{name, number, body})
	}
	if len(others) == 0 {
		return replies, []string{}, nil
	}
	missing = []string{}
	of := map[uint32]Reply{}
	for _, r := range <-found {
		of[r.Number] = r
	}
	for _, n := range others {
		if r, ok := of[n.No]; ok {
			replies = append(replies, r)
		} else {
			missing = append(missing, n.Name)
		}
	}
	return replies, missing, nil
}

// nodeName is this process among the nodes.
func (l *Ledger) nodeName() (string, uint32) {
	if l.node != nil {
		return l.node.name, l.node.no
	}
	name, _ := os.Hostname()
	return name, 1
}

// audience are the nodes that are to answer: this one or not, and others.
func (l *Ledger) audience(node string) (self bool, others []store.NodeRow, err error) {
	name, number := l.nodeName()
	wanted := func(other string, num uint32) bool {
		return node == "" || node == other || node == strconv.FormatUint(uint64(num), 10)
	}
	self = l.asked.Load() != nil && wanted(name, number)
	if l.node != nil && !(self && node != "") {
		rows, err := l.node.store.Nodes()
		if err != nil && !self {
			return false, nil, fmt.Errorf("cannot list the nodes: %w", err)
		}
		for _, r := range rows {
			if gone := l.clock().Sub(fromMicro(r.ExpiresUs)); r.No != number && !r.Left && gone < goneMost && wanted(r.Name, r.No) {
				others = append(others, r)
			}
		}
		if node != "" && len(others) > 1 {
			return false, nil, fmt.Errorf("%w: %d nodes are called %q; expected the number of one", ErrQuery, len(others), node)
		}
	}
	if !self && len(others) == 0 {
		return false, nil, fmt.Errorf("%w: %q; GET /nodes lists them", ErrNoNode, node)
	}
	return self, others, nil
}

// askOthers gives the answers of other nodes, as far as there are any in time.
func (l *Ledger) askOthers(ctx context.Context, to uint32, others []store.NodeRow, text []byte, most time.Duration) (replies []Reply) {
	s, ok := l.store.(store.Questions)
	if !ok {
		return nil
	}
	number, err := s.Ask(to, text, nodeTakes)
	if err != nil {
		l.log.Warn().Err(err).Msg("cannot ask the other nodes")
		return nil
	}
	defer func() {
		if err := s.Forget(number); err != nil {
			l.log.Warn().Err(err).Msg("cannot delete a question to the other nodes; it is deleted later")
		}
	}()
	began := time.Now()
	for {
		list, err := s.Replies(number)
		if err != nil {
			return nil
		}
		replies = replies[:0]
		open, taken := 0, 0
		for _, n := range others {
			body, has := list[n.No]
			switch {
			case body != nil:
				replies = append(replies, Reply{n.Name, n.No, body})
			case has:
				taken++
			case fromMicro(n.ExpiresUs).After(l.clock()):
				open++
			}
		}
		since := time.Since(began)
		if taken+open == 0 || taken == 0 && since > nodeTakes || since > most {
			return replies
		}
		select {
		case <-ctx.Done():
			return replies
		case <-time.After(askPause):
		}
	}
}

// question answers the question of another node, in the background.
func (n *node) question(c *store.Change) {
	a := n.l.asked.Load()
	if a == nil || c.Account != 0 && c.Account != n.no {
		return
	}
	select {
	case a.seats <- struct{}{}:
	default:
		n.l.log.Warn().Msg("too many questions of other nodes at once; one is not answered")
		return
	}
	n.work.Go(func() {
		defer func() { <-a.seats }()
		if err := n.reply(a, c.Key); err != nil {
			n.l.log.Warn().Err(err).Msg("cannot answer a question of another node")
		}
	})
}

// questionTime is how long an answer may take. Each operation has a limit of its own below this.
const questionTime = 30 * time.Second

func (n *node) reply(a *asked, number int64) error {
	s := n.l.store.(store.Questions)
	text, ok, err := s.Take(number)
	if err != nil || !ok {
		return err
	}
	var q Question
	if len(text) > askMost {
		return errors.New("the question is too long")
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return fmt.Errorf("cannot read the question: %w", err)
	}
	ctx, cancel := context.WithTimeout(n.work.Context(), questionTime)
	defer cancel()
	body, err := a.answer(ctx, q)
	if err != nil {
		return err
	}
	if len(body) > replyMost {
		return fmt.Errorf("the answer has %d bytes, and %d are the most", len(body), replyMost)
	}
	return s.Reply(number, body)
}
