package rpc

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Method is one method of a family of chains.
type Method struct {
	Name  string
	Tier  int64 // 1, 2 or 4 times the base credits of the network
	Class Class
	Index int // in its family
	// Raw says that params[0] is a signed transaction that has the same hash
	// however often it is sent, so that it can be sent again safely.
	Raw bool

	keep cacheRule
}

// Class says how a method may be retried.
type Class uint8

// The classes.
const (
	Read  Class = iota // may be repeated and hedged
	Heavy              // may be repeated; takes long and answers large
	Write              // changes the chain: runs once, as far as we can help
)

// Family is the methods of chains with the same interface.
type Family struct {
	Name    string
	Methods []*Method // by Index
	// Head is the method whose result is the number of the newest block or slot.
	Head *Method

	byName map[string]*Method
}

//go:embed methods.txt
var methodsText string

var families = parseFamilies(methodsText)

// FamilyOf finds a family by name: evm, solana or starknet. nil if absent.
func FamilyOf(name string) *Family { return families[name] }

// Find is the method of that name, nil when it is not served. It does not allocate.
func (f *Family) Find(name []byte) *Method { return f.byName[string(name)] }

// Match marks the methods that a name or a pattern such as debug_* means.
func (f *Family) Match(pattern string) (list []*Method) {
	stem, wild := strings.CutSuffix(pattern, "*")
	for _, m := range f.Methods {
		if m.Name == pattern || wild && strings.HasPrefix(m.Name, stem) {
			list = append(list, m)
		}
	}
	return list
}

var headMethods = map[string]string{"evm": "eth_blockNumber", "solana": "getSlot", "starknet": "starknet_blockNumber"}

// parseFamilies reads the embedded table. The first test finds mistakes in it.
func parseFamilies(text string) map[string]*Family {
	all := map[string]*Family{}
	var f *Family
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '[':
			f = &Family{Name: strings.Trim(line, "[]"), byName: map[string]*Method{}}
			all[f.Name] = f
			continue
		}
		words := strings.Fields(line)
		class := -1
		if len(words) == 3 {
			class = slices.Index([]string{"read", "heavy", "write"}, words[2])
		}
		tier, err := strconv.ParseInt(words[min(1, len(words)-1)], 10, 64)
		if f == nil || class < 0 || err != nil || f.byName[words[0]] != nil || !methodName([]byte(words[0])) {
			panic(fmt.Sprintf("jsonrpc: methods.txt has a bad line %q", line))
		}
		m := &Method{Name: words[0], Tier: tier, Class: Class(class), Index: len(f.Methods)}
		m.keep = cacheRules[f.Name][m.Name]
		m.Raw = m.Name == "eth_sendRawTransaction" || f.Name == "solana" && m.Name == "sendTransaction"
		f.Methods = append(f.Methods, m)
		f.byName[m.Name] = m
	}
	for name, f := range all {
		f.Head = f.byName[headMethods[name]]
	}
	return all
}

// Resolve finds the methods of all calls. Those that are not served are listed
// by call; nil when all are.
func (r *Request) Resolve(f *Family) (unknown []int) {
	for i := range r.Calls {
		c := &r.Calls[i]
		if c.Method = f.Find(c.method.of(r.Body)); c.Method == nil {
			unknown = append(unknown, i)
		}
	}
	return unknown
}

// Reason is why a method that is not in the table is refused, for the client.
func (f *Family) Reason(name []byte) string {
	s := string(name)
	for _, other := range families {
		if other != f && other.byName[s] != nil {
			return "is a method of " + other.Name + " networks"
		}
	}
	switch {
	case strings.HasSuffix(s, "ubscribe"):
		return "needs a WebSocket, which is not served"
	case slices.Contains(stateful, s):
		return "keeps state in one node, which is not served; use eth_getLogs"
	case slices.Contains(keyed, s):
		return "needs keys or mining in the node, which are not served"
	}
	return "is not served"
}

var (
	stateful = []string{"eth_newFilter", "eth_newBlockFilter", "eth_newPendingTransactionFilter",
		"eth_getFilterChanges", "eth_getFilterLogs", "eth_uninstallFilter"}
	keyed = []string{"eth_sign", "eth_accounts", "eth_mining", "eth_hashrate", "eth_getWork", "eth_submitWork",
		"eth_submitHashrate", "eth_sendTransaction", "eth_signTransaction", "eth_coinbase", "personal_sign"}
)

// Credits is the price of the request if every call succeeds: the base credits
// of the network times the tier of each method.
func (r *Request) Credits(base int64) (sum int64) {
	for i := range r.Calls {
		sum += base * r.Calls[i].Method.Tier
	}
	return sum
}

// Class is the most demanding class of the calls: a batch with a write is a write.
func (r *Request) Class() (class Class) {
	for i := range r.Calls {
		class = max(class, r.Calls[i].Method.Class)
	}
	return class
}
