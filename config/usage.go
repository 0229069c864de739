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
	// Bucket for these files, in place of a folder. All nodes write to one. Default: none.
	ExportS3 *S3 `yaml:"export_s3"`
}

// KeepFor is how long single requests are kept; 0: for ever.
func (u Usage) KeepFor() time.Duration { return time.Duration(u.Keep) * 24 * time.Hour }

func (v *validator) usage() {
	u, at := &v.c.Usage, "usage.export"
	if u.ExportS3 != nil {
		if u.Export != "" {
			v.wrong(at, "there is a bucket in export_s3: already; expected one place or the other")
		}
		at = "usage.export_s3"
		v.s3(at, u.ExportS3)
		if u.ExportS3.Redirect {
			v.wrong(at+".redirect", "exports have no links; expected false")
		}
	}
	if (u.Export != "" || u.ExportS3 != nil) && u.Keep == 0 && !v.bad["usage.keep"] {
		v.wrong(at, "nothing is exported, since single requests are kept for ever; expected keep, such as 400 days, too")
	}
}
