package account

import (
	"time"

	"farebox/billing"
	"farebox/config"
	"farebox/proxy/jsontext"
)

// The key object of addendum 16.1. Every number is written from its integer.

// appendKey appends a key, with its use where use is not nil.
func appendKey(b []byte, k *billing.KeyInfo, use *billing.KeyRecord) []byte {
	b = jsontext.Object(append(b, '{')).Text("id", k.ID)
	b = append(b, `,"apiKeyType":"`...)
	b = append(b, k.Type.String()...)
	b = jsontext.AppendString(append(b, `","description":`...), k.Description)
	b = jsontext.Object(b).Text("last6Chars", k.Last6)
	b = appendTime(append(b, `,"createdAt":`...), k.CreatedAt)
	b = appendTime(append(b, `,"expiresAt":`...), k.ExpiresAt)
	b = appendTime(append(b, `,"lastUsedAt":`...), k.LastUsedAt)
	b = appendLimits(append(b, `,"consumptionLimits":`...), k)
	b = appendRules(b, k)
	if use != nil {
		week := &use.Week
		b = appendFixed(append(b, `,"usage":{"trailingSevenDays":{"usd":"`...), week.USD, fixedPlaces)
		b = appendFixed(append(b, `","diem":"`...), week.DIEM, fixedPlaces)
		b = appendScaled(append(b, `","vcu":"`...), int64(week.DIEM), nanoPlaces-1, fixedPlaces)
		b = append(b, `"}}`...)
		if now := use.Current; now != nil {
			b = appendFixed(append(b, `,"currentPeriodUsage":{"usd":"`...), now.USD, fixedPlaces)
			b = appendFixed(append(b, `","diem":"`...), now.DIEM, fixedPlaces)
			b = append(b, `"}`...)
		}
	}
	return append(b, '}')
}

// appendNewKey appends the answer to a creation (addendum 16.2).
func appendNewKey(b []byte, k *billing.KeyInfo, secret string) []byte {
	b = jsontext.AppendString(append(b, `{"success":true,"data":{"id":`...), k.ID)
	b = jsontext.Object(b).Text("apiKey", secret)
	b = append(b, `,"apiKeyType":"`...)
	b = append(b, k.Type.String()...)
	b = jsontext.AppendString(append(b, `","description":`...), k.Description)
	b = appendTime(append(b, `,"expiresAt":`...), k.ExpiresAt)
	b = appendLimits(append(b, `,"consumptionLimit":`...), k)
	b = appendRules(b, k)
	return append(b, `}}`...)
}

func appendLimits(b []byte, k *billing.KeyInfo) []byte {
	usd, diem := k.USD(), k.DIEM()
	b = usd.AppendJSON(append(b, `{"usd":`...))
	b = diem.AppendJSON(append(b, `,"diem":`...))
	b = diem.AppendVCU(append(b, `,"vcu":`...))
	return append(b, '}')
}

func appendRules(b []byte, k *billing.KeyInfo) []byte {
	b = append(b, `,"limitPeriod":"`...)
	b = append(b, k.Period.String()...)
	b = append(b, `","modelPrivacy":"`...)
	b = append(b, k.Privacy.String()...)
	return append(b, '"')
}

const (
	nanoPlaces  = 9
	fixedPlaces = 4 // of decimal strings (addendum 16.1)
	isoTime     = "2006-01-02T15:04:05.000Z"
)

// appendTime appends a time in UTC with milliseconds, or null for none.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, isoTime)
	return append(b, '"')
}

// appendAmount appends an amount as the shortest exact JSON number.
func appendAmount(b []byte, n billing.Nano) []byte {
	return config.AppendDecimal(b, int64(n), nanoPlaces)
}

// appendFixed appends an amount with so many decimals, the last one rounded
// half away from zero.
func appendFixed(b []byte, n billing.Nano, places int) []byte {
	return appendScaled(b, int64(n), nanoPlaces, places)
}

// appendScaled is appendFixed for v / 10^scale.
func appendScaled(b []byte, v int64, scale, places int) []byte {
	u := uint64(v)
	if v < 0 {
		u = -u
	}
	unit := uint64(1)
	for range scale - places {
		unit *= 10
	}
	u = (u + unit/2) / unit
	if v < 0 && u > 0 {
		b = append(b, '-')
	}
	pow := uint64(1)
	for range places {
		pow *= 10
	}
	b = config.AppendDecimal(b, int64(u/pow), 0)
	b = append(b, '.')
	for rest := u % pow; pow > 1; rest %= pow {
		pow /= 10
		b = append(b, byte('0'+rest/pow))
	}
	return b
}
