//go:build !race

package rpc_test

import (
	"strconv"
	"strings"
	"testing"

	"farebox/routes/routestest"
	"farebox/routes/rpc"
)

// A blockchain call leaves as little garbage as a chat request, and another call in a
// batch none at all.

const allocConfig = `
log: { level: error }
limits: { key: { rpm: 100000000, tpm: 100000000000 } }
rpc:
  networks: [{ name: ethereum-mainnet, upstreams: [{ name: only, url: "http://ADDR/" }] }]
  rate: { rpm: 100000000 }
`

const allocCallBody = `"jsonrpc":"2.0","method":"eth_getBalance","params":["0x407d73d8a49eeb85d32cf465507dd71d507100c1","latest"]}`

func batchOf(n int, item func(id string) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = item(strconv.Itoa(i + 1))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// rpcAllocations has a node give an answer under the ids of its request. end is the end
// of the client's answer.
func rpcAllocations(t *testing.T, body, answer, end string) float64 {
	t.Helper()
	whole := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(answer)) +
		"\r\n\r\n" + answer
	return testing.AllocsPerRun(1000, routestest.Caller(t, allocConfig, []byte(whole), "/crypto/rpc/ethereum-mainnet",
		body, []byte(end), rpc.New()))
}

func TestBlockchainCallAllocatesNothing(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":0000000000000000,"result":"0x1"}`
	if n := rpcAllocations(t, `{"id":1,`+allocCallBody, answer, strings.Replace(answer, "0000000000000000", "1", 1)); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
	if n := rpcAllocations(t, `{"id":18446744073709551615,`+allocCallBody, answer,
		strings.Replace(answer, "0000000000000000", "18446744073709551615", 1)); n != 0 {
		t.Errorf("a call whose id is restored allocates %v times", n)
	}
}

func TestBatchAllocatesTheSameForAnyNumberOfCalls(t *testing.T) {
	batch := func(n int) float64 {
		answer := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":"0x1"}` }
		return rpcAllocations(t, batchOf(n, func(id string) string { return `{"id":` + id + `,` + allocCallBody }),
			batchOf(n, func(string) string { return answer("0000000000000000") }), batchOf(n, answer))
	}
	few, many := batch(2), batch(100)
	if few > 0 || many > 0 {
		t.Errorf("a batch of 2 allocates %v times, one of 100 %v times", few, many)
	}
}
