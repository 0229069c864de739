package dial

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"farebox/config"
)

const connectWithin = time.Second

// silence is the library's log: real failures come back as errors, and the
// rest is a line for every dial while Redis is away.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

var quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

// Redis connects to the Redis of the config, and does not wait for it. wait
// bounds each reading, each writing and the way to a free connection; adjust
// makes the callers' own settings.
func Redis(c *config.Redis, wait time.Duration, adjust func(*redis.UniversalOptions)) redis.UniversalClient {
	quiet()
	o := &redis.UniversalOptions{
		Addrs: c.Addresses, MasterName: c.SentinelMaster, IsClusterMode: c.Cluster,
		Username: c.Username, Password: c.Password.Reveal(), SentinelPassword: c.SentinelPassword.Reveal(), DB: c.DB,
		// A repeated command would count twice.
		MaxRetries:  -1,
		DialTimeout: connectWithin, DialerRetries: 1, ReadTimeout: wait, WriteTimeout: wait, PoolTimeout: wait,
		ClientName:               "farebox",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if c.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	adjust(o)
	return redis.NewUniversalClient(o)
}
