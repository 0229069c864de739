package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"farebox/bench/upstream/node"
)

// rpc are calls of blockchains.
func (l *lab) rpc(c *customer) {
	post := func(network, body string) {
		l.post(network+" "+body[:min(len(body), 150)], "/crypto/rpc/"+network, c.worker, body)
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
	for _, body := range lines("rpc-bodies") {
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
	l.get("networks", "/crypto/rpc/networks", "")
	l.get("networks with a key", "/crypto/rpc/networks", c.worker)
	for _, h := range []string{"Accept-Encoding: gzip", "Content-Type: text/plain", "Origin: https://app.example.com",
		"Connection: close"} {
		l.post("call with "+h, "/crypto/rpc/"+chain, c.worker,
			`{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice","params":["`+strings.Repeat("x", 3000)+`"]}`, h)
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
	for _, line := range lines("node-faults") {
		name, text, _ := strings.Cut(line, ": ")
		var faults node.Faults
		if err := json.Unmarshal([]byte(text), &faults); err != nil {
			panic("the script is part of the program: " + err.Error())
		}
		// Alone, and with another node that does the same. Batches are left out there:
		// the knowledge about a node depends on which one had them.
		for _, network := range []string{"ethereum-mainnet", twoNodes} {
			bodies := []string{single, batch, large, write(i)}
			if network == twoNodes {
				bodies = []string{single, large, write(i)}
			}
			l.nodes[0].Fault(faults)
			l.nodes[1].Fault(faults)
			for _, body := range bodies {
				i++
				l.post(fmt.Sprint(network, ", nodes with ", name, " ", body[:min(len(body), 60)]),
					"/crypto/rpc/"+network, c.worker, body)
			}
			l.nodes[0].Fault(node.Faults{})
			l.nodes[1].Fault(node.Faults{})
		}
	}
}
