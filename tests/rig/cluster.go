package rig

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/bench/upstream"
)

// clusterConfig has the name and folder of a node, Redis, and an upstream with a node
// of a blockchain.
const clusterConfig = `
responses: { keep: 1h }
log: { level: error, format: json }
node: { name: %s, dir: %s }
redis: { addresses: [%q], timeout: 1s }
billing: { minimum_balance: 0, stream_slice_tokens: 16 }
limits: { failed_requests: { count: 0 }, tiers: { few: { rpm: 30 }, many: { rpm: 600000, tpm: 1000000000 } } }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 }, max_connections: 4096 }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - id: sim-many
    tier: many
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only, model: sim-chat }]
  - id: sim-few
    tier: few
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only, model: sim-chat }]
rpc:
  rate: { rpm: 30 }
  networks: [{ name: ethereum-sepolia, upstreams: [{ name: only, url: "%s" }] }]
`

// Cluster is several nodes, and the stores that they share.
type Cluster struct {
	T        *testing.T
	Postgres string // URL, perhaps of a proxy before the server
	Redis    string
	Sim      *Simulated
	Nodes    []*Gateway
}

// StartNode starts one more node of the cluster, with a ledger directory of its own.
func (c *Cluster) StartNode(name string) *Gateway {
	c.T.Helper()
	g := c.NewNode(name)
	g.ListenAndStart()
	c.Nodes = append(c.Nodes, g)
	return g
}

// NewNode is StartNode without the start.
func (c *Cluster) NewNode(name string) *Gateway {
	c.T.Helper()
	dir := c.T.TempDir()
	text := fmt.Sprintf(clusterConfig, name, filepath.Join(dir, "node"), c.Redis, c.Sim.URL,
		strings.TrimSuffix(c.Sim.URL, "/v1")+"/rpc/evm")
	g := &Gateway{
		Dir: dir, Config: filepath.Join(dir, "farebox.yaml"), Store: c.Postgres,
		T: c.T, out: &Output{}, log: &Output{},
	}
	g.WriteConfig(text)
	return g
}

// StartCluster starts so many nodes on a PostgreSQL database and a Redis.
func StartCluster(t *testing.T, nodes int) *Cluster {
	t.Helper()
	c := NewCluster(t)
	for i := range nodes {
		c.StartNode(fmt.Sprintf("n%d", i+1))
	}
	return c
}

// NewCluster is StartCluster without nodes.
func NewCluster(t *testing.T) *Cluster {
	t.Helper()
	return &Cluster{
		T: t, Postgres: servers.Database(t), Redis: servers.StartRedis(t).Addr,
		Sim: StartUpstream(t, upstream.Options{}),
	}
}
