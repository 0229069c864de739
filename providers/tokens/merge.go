package tokens

// merger is the memory of one merge.
type merger struct {
	parts []part // by where they begin; those that were merged into others are left over
	pairs pairs
}

// part is a piece of a word. pair is the rank of the token that it makes with the next one,
// noRank for no token, and for a part that was merged.
type part struct {
	before, next int32
	pair         uint32
}

// pairs are candidates to merge, the lowest rank first and of the same rank the first in
// the text. Those whose part has changed since are skipped.
type pairs []pair

type pair struct {
	rank uint32
	at   int32
}

func (p pairs) less(i, j int) bool {
	return p[i].rank < p[j].rank || p[i].rank == p[j].rank && p[i].at < p[j].at
}

// push and pop are those of container/heap, which would take memory for each.
func (p *pairs) push(one pair) {
	*p = append(*p, one)
	list := *p
	for i := len(list) - 1; i > 0 && list.less(i, (i-1)/2); i = (i - 1) / 2 {
		list[i], list[(i-1)/2] = list[(i-1)/2], list[i]
	}
}

func (p *pairs) pop() pair {
	list := *p
	first := list[0]
	n := len(list) - 1
	list[0] = list[n]
	list = list[:n]
	*p = list
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < n && list.less(child+1, child) {
			child++
		}
		if child >= n || !list.less(child, i) {
			return first
		}
		list[i], list[child] = list[child], list[i]
		i = child
	}
}

// merge makes tokens of the bytes of a word: parts then lead from one to the next.
func (m *merger) merge(v *Vocabulary, word string) {
	n := int32(len(word))
	m.parts, m.pairs = m.parts[:0], m.pairs[:0]
	for i := range n + 1 {
		m.parts = append(m.parts, part{i - 1, i + 1, noRank})
	}
	for i := range n {
		m.findRank(v, word, i)
	}
	for len(m.pairs) > 0 {
		first := m.pairs.pop()
		i := first.at
		if m.parts[i].pair != first.rank {
			continue
		}
		gone := m.parts[i].next
		m.parts[gone].pair = noRank
		next := m.parts[gone].next
		m.parts[i].next = next
		if next <= n {
			m.parts[next].before = i
		}
		m.findRank(v, word, i)
		if before := m.parts[i].before; before >= 0 {
			m.findRank(v, word, before)
		}
	}
}

// findRank finds the rank of the part at i with the next one.
func (m *merger) findRank(v *Vocabulary, word string, i int32) {
	p := &m.parts[i]
	p.pair = noRank
	if int(p.next) >= len(word) {
		return
	}
	if p.pair = v.rank(word[i:m.parts[p.next].next]); p.pair != noRank {
		m.pairs.push(pair{p.pair, i})
	}
}
