package upstream

import (
	"bytes"
	"strconv"
	"strings"

	"farebox/bench/upstream/chain"
)

// The measured path of blockchain calls: of a body posted to BenchRPCPath only the ids are
// read, and the rest of its answer is prepared. Faults, states and other methods are in
// Node, which is not made for speed.

// BenchRPCPath is where the measured node listens.
const BenchRPCPath = "/v1/rpc"

// Requests of the measurements, and what is asked for.
const (
	// BenchRPCLarge is the size of the result of eth_getLogs in bytes, about.
	BenchRPCLarge = 100 << 20
	// BenchRPCBatch is the number of calls in BenchRPCCalls.
	BenchRPCBatch  = 100
	benchRPCResult = `"result":"0x1bc16d674ec80000"}`
	benchRPCChunk  = 64 << 10
)

// BenchRPCCall is one call, BenchRPCCalls a batch and BenchRPCLogs a call with
// a large answer.
var (
	BenchRPCCall  = []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x407d73d8a49eeb85d32cf465507dd71d507100c1","latest"]}`)
	BenchRPCCalls = benchBatch(func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id +
			`,"method":"eth_getBalance","params":["0x407d73d8a49eeb85d32cf465507dd71d507100c1","latest"]}`
	})
	BenchRPCLogs = []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x1","toBlock":"0x100000"}]}`)
)

var (
	benchRPCLogsMark = []byte(`"eth_getLogs"`)
	benchRPCID       = []byte(`"id":`)
	benchRPCHead     = "HTTP/1.1 200 OK\r\nServer: simulated-upstream\r\nContent-Type: application/json\r\n"
	benchRPCPiece    = benchLogs()
	benchRPCEnd      = []byte(chunkOf(`null]}`) + "0\r\n\r\n")
)

func benchBatch(call func(id string) string) []byte {
	b := []byte{'['}
	for i := 1; i <= BenchRPCBatch; i++ {
		if i > 1 {
			b = append(b, ',')
		}
		b = append(b, call(strconv.Itoa(i))...)
	}
	return append(b, ']')
}

// benchLogs is a chunk of about benchRPCChunk bytes of logs.
func benchLogs() []byte {
	return []byte(chunkOf(strings.Repeat(chain.ExampleLog, benchRPCChunk/len(chain.ExampleLog))))
}

// serveBenchRPC answers a call on the measured path.
func (c *conn) serveBenchRPC() bool {
	body := bytes.TrimLeft(c.req.body, " \t\r\n")
	many := len(body) > 0 && body[0] == '['
	if !many && bytes.Contains(body[:min(len(body), benchLook)], benchRPCLogsMark) {
		id, _ := nextBenchID(body)
		return c.benchRPCLarge(id)
	}
	answer := c.rpc[:0]
	if many {
		answer = append(answer, '[')
	}
	for id, rest := nextBenchID(body); id != nil; id, rest = nextBenchID(rest) {
		if len(answer) > 1 {
			answer = append(answer, ',')
		}
		answer = append(append(append(answer, `{"jsonrpc":"2.0","id":`...), id...), `,`+benchRPCResult...)
	}
	if many {
		answer = append(answer, ']')
	}
	c.rpc = answer
	head := strconv.AppendInt(append(c.out[:0], benchRPCHead+"Content-Length: "...), int64(len(answer)), 10)
	c.out = append(append(head, "\r\n\r\n"...), answer...)
	_, err := c.nc.Write(c.out)
	return err == nil
}

// nextBenchID returns the next id in a body and the rest of the body, or nil at its end.
func nextBenchID(body []byte) (id, rest []byte) {
	at := bytes.Index(body, benchRPCID)
	if at < 0 {
		return nil, nil
	}
	body = body[at+len(benchRPCID):]
	end := bytes.IndexAny(body, ",}")
	if end < 0 {
		return nil, nil
	}
	return bytes.TrimSpace(body[:end]), body[end:]
}

func (c *conn) benchRPCLarge(id []byte) bool {
	head := benchRPCHead + "Transfer-Encoding: chunked\r\n\r\n" + chunkOf(`{"jsonrpc":"2.0","id":`+string(id)+`,"result":[`)
	if _, err := c.nc.Write([]byte(head)); err != nil {
		return false
	}
	for sent := 0; sent < BenchRPCLarge; sent += len(benchRPCPiece) {
		if _, err := c.nc.Write(benchRPCPiece); err != nil {
			return false
		}
	}
	_, err := c.nc.Write(benchRPCEnd)
	return err == nil
}
