package main

import (
	"fmt"
	"strings"
	"time"

	"farebox/bench/upstream"
)

// rpc are calls of blockchains.
func (l *lab) rpc(c *customer) {
	post := func(network, body string) {
		l.do(step{name: network + " " + body[:min(len(body), 150)], path: "/crypto/rpc/" + network, key: c.worker,
			body: body})
	}
	const chain = "ethereum-mainnet"
	for _, method := range strings.Fields(
		`eth_chainId net_version eth_blockNumber eth_call eth_getBalance eth_getLogs eth_getProof eth_feeHistory trace_block trace_filter debug_traceTransaction
		debug_traceCall eth_sendRawTransaction web3_clientVersion eth_getTransactionByHash eth_accounts eth_subscribe eth_newFilter getSlot starknet_blockNumber no_such eth_syncing eth_getBlockByNumber bor_getAuthor`) {
		for _, params := range []string{"", `,"params":[]`, `,"params":["0x1"]`, `,"params":["revert"]`,
			`,"params":{"a":1}`} {
			post(chain, `{"jsonrpc":"2.0","id":1,"method":"`+method+`"`+params+`}`)
		}
	}
	for _, method := range strings.Fields(
		`getSlot getBlockHeight getAccountInfo getProgramAccounts sendTransaction getBlock simulateTransaction eth_chainId`) {
		post("solana-mainnet", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":["x"]}`)
	}
	for _, method := range strings.Fields(
		`starknet_blockNumber starknet_call starknet_traceTransaction starknet_addInvokeTransaction eth_chainId`) {
		post("starknet-mainnet", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":["x"]}`)
	}
	for _, id := range []string{`null`, `0`, `-1`, `1.50`, `1e3`, `12345678901234567890123`, `""`, `"a\"b\u0041"`,
		`"` + strings.Repeat("x", 300) + `"`, `true`, `{}`, `[]`} {
		post(chain, `{"jsonrpc":"2.0","id":`+id+`,"method":"eth_gasPrice","params":[1]}`)
		post(chain, `[{"jsonrpc":"2.0","id":`+id+
			`,"method":"eth_gasPrice","params":[1]},{"jsonrpc":"2.0","id":2,"method":"eth_gasPrice","params":["revert"]}]`)
	}
	for _, body := range []string{
		``, ` `, `x`, `{}`, `[]`, `null`, `1`, `[1]`, `[[]]`, `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}{}`, `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"} `,
		"\t{\"jsonrpc\": \"2.0\" ,\n\"id\":1, \"method\":\"eth_chainId\"}",
		`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","METHOD":"eth_accounts"}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","method":"eth_accounts"}`,
		`{"jsonrpc":"2.0","id":1,"m\u0065thod":"eth_accounts","method":"eth_chainId"}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_\u0063hainId"}`, `{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}`,
		`{"id":1,"method":"eth_chainId"}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":1}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","extra":[1,{"a":2}]}`, `{"jsonrpc":"2.0","id":1}`,
		`{"jsonrpc":"2.0","id":1,"method":5}`, `{"jsonrpc":"2.0","method":"eth_chainId"}`,
		`{"jsonrpc":"2.0","method":"eth_sendRawTransaction","params":["0x0909"]}`,
		`[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},7]`,
		`[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","method":"eth_gasPrice","params":[5]},{"jsonrpc":"2.0","id":"x","method":"eth_call","params":["revert"]}]`, `[{"jsonrpc":"2.0","method":"eth_gasPrice"},{"jsonrpc":"2.0","method":"eth_gasPrice"}]`,
		`[{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1]},{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[2]},{"jsonrpc":"2.0","id":1.0,"method":"eth_call","params":[3]}]`, `[{"jsonrpc":"2.0","id":1,"method":"eth_accounts"},{"jsonrpc":"2.0","id":3,"method":"getSlot"},{"jsonrpc":"2.0","id":4,"method":"eth_subscribe"}]`,
		`[{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x0a0a"]},{"jsonrpc":"2.0","id":2,"method":"eth_sendRawTransaction","params":["0x0a0a"]},{"jsonrpc":"2.0","id":3,"method":"debug_traceBlock","params":["0x1"]}]`,
		`[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},`, 99) +
			`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]`,
		`[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},`, 100) +
			`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x0b0b"]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x0b0b"]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x6c6f77"]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["zz"]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"simulate":{"code":-32000,"message":"header not found"}}]}`, `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"simulate":{"code":-32005,"message":"limit exceeded"}}]}`, `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"simulate":{"code":-32601,"message":"the method eth_call does not exist"}}]}`, `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"simulate":{"code":429,"message":"Too many requests"}}]}`,
	} {
		post(chain, body)
	}
	for _, network := range []string{"no-such-network", "base-mainnet", "ETHEREUM-MAINNET", "ethereum-mainnet/",
		"x/y"} {
		post(network, `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`)
	}
	for range 3 {
		post("base-mainnet", `{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x1",false]}`)
		post("base-mainnet", `{"jsonrpc":"2.0","id":"b","method":"eth_chainId","params":[]}`)
		post("base-mainnet", `{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice"}`)
		time.Sleep(300 * time.Millisecond) // until the node was asked for its finalized block
	}
	l.do(step{name: "networks", method: "GET", path: "/crypto/rpc/networks"})
	l.do(step{name: "networks with a key", method: "GET", path: "/crypto/rpc/networks", key: c.worker})
	for _, h := range []string{"Accept-Encoding: gzip", "Content-Type: text/plain", "Origin: https://app.example.com",
		"Connection: close"} {
		l.do(step{name: "call with " + h, path: "/crypto/rpc/" + chain, key: c.worker, headers: []string{h},
			body: `{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice","params":["` + strings.Repeat("x", 3000) + `"]}`})
	}
}

// rpcFaults are nodes that fail, alone and beside one that does not.
func (l *lab) rpcFaults(c *customer) {
	single := `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1]}`
	large := `{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[1]}`
	write := func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x77%04x"]}`, i)
	}
	batch := `[{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1]},{"jsonrpc":"2.0","id":2,"method":"eth_call","params":[2]},{"jsonrpc":"2.0","id":3,"method":"eth_call","params":["revert"]},{"jsonrpc":"2.0","id":4,"method":"eth_call","params":[4]}]`
	i := 0
	for _, f := range []struct {
		name   string
		faults upstream.NodeFaults
	}{
		{"none", upstream.NodeFaults{}}, {"400", upstream.NodeFaults{Status: 400}},
		{"401", upstream.NodeFaults{Status: 401}}, {"403", upstream.NodeFaults{Status: 403}},
		{"404", upstream.NodeFaults{Status: 404}}, {"413", upstream.NodeFaults{Status: 413}},
		{"429", upstream.NodeFaults{Status: 429}},
		{"500", upstream.NodeFaults{Status: 500}}, {"502", upstream.NodeFaults{Status: 502}},
		{"503", upstream.NodeFaults{Status: 503,
			Body: `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"busy"}}`}},
		{"200 with a page", upstream.NodeFaults{Status: 200}},
		{"infura", upstream.NodeFaults{Hidden: "infura"}}, {"alchemy", upstream.NodeFaults{Hidden: "alchemy"}},
		{"quicknode", upstream.NodeFaults{Hidden: "quicknode"}}, {"public", upstream.NodeFaults{Hidden: "public"}},
		{"therpc", upstream.NodeFaults{Hidden: "therpc"}}, {"text", upstream.NodeFaults{Hidden: "text"}},
		{"shuffle", upstream.NodeFaults{Shuffle: true}}, {"duplicate", upstream.NodeFaults{Duplicate: true}},
		{"missing", upstream.NodeFaults{Missing: true}}, {"foreign", upstream.NodeFaults{Foreign: true}},
		{"no id", upstream.NodeFaults{NoID: true}}, {"round", upstream.NodeFaults{Round: true}},
		{"truncate", upstream.NodeFaults{Truncate: true}}, {"trailing", upstream.NodeFaults{Trailing: true}},
		{"empty", upstream.NodeFaults{Empty: true}}, {"drop", upstream.NodeFaults{Drop: true}},
		{"busy", upstream.NodeFaults{Busy: 2}},
		{"without", upstream.NodeFaults{Without: []string{"eth_call"}}}, {"large", upstream.NodeFaults{Large: 100_000}},
		{"large and cut", upstream.NodeFaults{Large: 3_000_000, LargeCut: true}},
		{"max batch", upstream.NodeFaults{MaxBatch: 2}}, {"single", upstream.NodeFaults{Single: true}},
		{"item", upstream.NodeFaults{Item: true}},
	} {
		// Alone, and with another node that does the same. Batches are left out
		// there: what is learnt of a node depends on which one had them.
		for _, network := range []string{"ethereum-mainnet", twoNodes} {
			bodies := []string{single, batch, large, write(i)}
			if network == twoNodes {
				bodies = []string{single, large, write(i)}
			}
			l.nodes[0].Fault(f.faults)
			l.nodes[1].Fault(f.faults)
			for _, body := range bodies {
				i++
				l.do(step{name: fmt.Sprint(network, ", nodes with ", f.name, " ", body[:min(len(body), 60)]),
					path: "/crypto/rpc/" + network, key: c.worker, body: body})
			}
			l.nodes[0].Fault(upstream.NodeFaults{})
			l.nodes[1].Fault(upstream.NodeFaults{})
		}
	}
}
