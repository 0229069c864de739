package replay

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"farebox/config/fair"
)

// Shares of the owners in Redis follow the rule of fair.Room. Nodes count them together:
// one hash for each eighth of a window, which expires when no record of that time is left.
// All of them have one hash tag, so that one script can add them up. A record has another
// place in a cluster, so a claim takes two calls: the share first, then the key.

// sharesBuckets are those that may have something: a window and the eighth that has begun.
const sharesBuckets = 9

// takeShare adds to an owner's share in the newest bucket, if all buckets together let it.
// Returned room is less than nothing, and always fits.
//
// KEYS: buckets, the newest first. ARGV: account, net, keys, bytes, the most of both, and
// the life of a bucket in ms.
var takeShare = redis.NewScript(`
local account, net, keys, bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local fields = {'k', 'b', 'k' .. account, 'b' .. account}
if account == '0' then
  fields[5], fields[6] = 'k0:' .. net, 'b0:' .. net
end
if keys < 0 and redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
local sum = {0, 0, 0, 0, 0, 0}
for i = 1, #KEYS do
  local v = redis.call('HMGET', KEYS[i], unpack(fields))
  for j = 1, #fields do sum[j] = sum[j] + tonumber(v[j] or 0) end
end
local function fits(n, used, held, part, most)
  local function allowance(has, free)
    if has <= 0 then return free end
    return math.max(0, free - math.floor((free + has + 7) / 8))
  end
  local allowed = allowance(held, math.max(0, most - used))
  if account == '0' then allowed = allowance(part, allowed) end
  return n <= allowed
end
if not fits(keys, sum[1], sum[3], sum[5], tonumber(ARGV[5])) or
   not fits(bytes, sum[2], sum[4], sum[6], tonumber(ARGV[6])) then return 0 end
for j = 1, #fields do
  local n = j % 2 == 1 and keys or bytes
  if n ~= 0 then redis.call('HINCRBY', KEYS[1], fields[j], n) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return 1`)

// bucketMs is how long one bucket is.
func (r *redisStore) bucketMs() int64 { return (r.windowMs + sharesBuckets - 2) / (sharesBuckets - 1) }

// bucket is the number of the one that counts the writes at a time.
func (r *redisStore) bucket(atMs int64) int64 { return atMs / r.bucketMs() }

// take counts an owner's next write, or says that the owner has its share.
func (r *redisStore) take(ctx context.Context, o fair.Owner, bucket int64, n share) (fits bool, err error) {
	names := make([]string, sharesBuckets)
	for i := range names {
		names[i] = r.prefix + "{shares}:" + strconv.FormatInt(bucket-int64(i), 10)
	}
	ok, err := takeShare.Run(ctx, r.client, names, strconv.FormatUint(o.Account, 10), strconv.FormatUint(o.Net, 10), n.keys,
		n.bytes, r.maxKeys, r.maxBytes, r.windowMs+r.bucketMs()).Int()
	r.note(err)
	return ok == 1, err
}

// give gives back the room of a claim. If Redis misses this, the room expires.
func (r *redisStore) give(ctx context.Context, p *record) {
	_, _ = r.take(ctx, p.owner, r.bucket(p.atMs), share{-1, -headSize})
}
