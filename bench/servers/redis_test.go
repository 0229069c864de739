package servers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestRedisComesBackOnItsPort(t *testing.T) {
	t.Parallel()
	r := StartRedis(t)
	r.Do("SET", "a", "1")
	r.Kill()
	c := r.Client()
	defer func() { _ = c.Close() }()
	if err := c.Ping(context.Background()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	r.Start()
	if v := r.Do("GET", "a"); v != nil {
		t.Errorf("without persistence the restarted server has %v", v)
	}
	r.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	frozen := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = frozen.Close() }()
	if err := frozen.Ping(ctx).Err(); err == nil {
		t.Error("a frozen server answers")
	}
	r.Thaw()
	r.Do("PING")
}

func TestLongClusterAndSentinelsAgree(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs})
	defer func() { _ = cluster.Close() }()
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if err := cluster.Set(context.Background(), key, 1, 0).Err(); err != nil {
			t.Errorf("cluster: %v", err)
		}
	}
	s := StartSentinels(t)
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs})
	defer func() { _ = failover.Close() }()
	if err := failover.Set(context.Background(), "a", 1, 0).Err(); err != nil {
		t.Errorf("sentinel: %v", err)
	}
}
