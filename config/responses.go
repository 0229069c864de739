package config

import "time"

// Responses is what /responses keeps of its answers. It lies beside the ledger, or in
// Redis when the nodes share one.
type Responses struct {
	// ItemReferences is how long requests may refer to items of earlier answers by their
	// ids; 0: not at all. Default 1h, 0 or 1m to 24h.
	ItemReferences time.Duration `yaml:"item_references"`
	// Keep is how long answers are kept with their input, for previous_response_id and
	// GET /responses/{id}; 0: not at all. Default 0, else 1m to 168h.
	Keep time.Duration `yaml:"keep"`
}

func (v *validator) responses() {
	if d := v.c.Responses.ItemReferences; d != 0 && (d < time.Minute || d > 24*time.Hour) {
		v.wrong("responses.item_references", "%s is out of range; expected 0 (off) or 1m to 24h",
			v.shown("responses.item_references"))
	}
	if d := v.c.Responses.Keep; d != 0 && (d < time.Minute || d > 168*time.Hour) {
		v.wrong("responses.keep", "%s is out of range; expected 0 (off) or 1m to 168h", v.shown("responses.keep"))
	}
}
