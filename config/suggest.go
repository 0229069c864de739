package config

// foreign are keys as other gateways and SDKs call them.
var foreign = map[string]string{
	"addr": "listen", "address": "listen", "port": "listen", "host": "listen",
	"api_key": "key", "apikey": "key", "token": "key", "secret": "key",
	"url": "base_url", "endpoint": "base_url", "api_base": "base_url",
	"provider": "dialect", "format": "dialect", "kind": "type",
	"providers": "upstreams", "backends": "upstreams", "servers": "upstreams",
	"backend": "upstream", "pricing": "price", "prices": "price",
	"prompt": "input", "completion": "output", "cache_input": "cache_read",
	"cached_input": "cache_read", "context_length": "context_tokens",
	"context_window": "context_tokens", "max_tokens": "max_completion_tokens",
	"max_output_tokens": "max_completion_tokens", "model_name": "id",
	"database": "store", "routes": "targets", "deployments": "targets",
	"threshold": "above", "certificate": "cert", "timeout": "timeouts",
	"functions": "tools", "function_calling": "tools", "json_schema": "response_schema",
}

// suggest finds the key that was probably meant, or "".
func suggest(got string, keys []string) string {
	if len(got) > 40 {
		return ""
	}
	best, least := "", 3
	for _, key := range keys {
		if foreign[got] == key {
			return key
		}
		if n := distance(got, key); n < least && n*2 < len(key) {
			best, least = key, n
		}
	}
	return best
}

// distance is the number of letters to insert, remove, change or swap with
// their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
