package config

import "time"

// Usage says how long single requests are kept. Sums by day, key and model are kept for ever.
type Usage struct {
	// Days that single requests are kept. Older ones are pruned by whole UTC days, and lists show one line a day, key,
	// model, kind and currency in their place. 0: for ever.
	Keep int `yaml:"keep" default:"0" range:"90..36500|0"`
	// Folder for the single requests of each day before they are pruned: usage-2026-08-31.jsonl.gz. A day is pruned
	// when its file was written and read back. Default: none.
	Export string `yaml:"export"`
}

// KeepFor is how long single requests are kept; 0: for ever.
func (u Usage) KeepFor() time.Duration { return time.Duration(u.Keep) * 24 * time.Hour }

func (v *validator) usage() {
	if v.c.Usage.Export != "" && v.c.Usage.Keep == 0 && !v.bad["usage.keep"] {
		v.wrong("usage.export", "nothing is exported, since single requests are kept for ever; expected keep, such as 400 days, too")
	}
}
