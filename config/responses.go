package config

import "time"

// Responses configures the stored answers of /responses, beside the ledger, or in Redis when
// nodes share one.
type Responses struct {
	// How long requests may refer to items of earlier answers by their ids (item_reference). They count within
	// idempotency.max_stored and max_keys, apart from kept answers. 0: off.
	ItemReferences time.Duration `yaml:"item_references" default:"1h" range:"0|1m..24h"`
	// How long answers are kept with their input, for previous_response_id, GET and DELETE /responses/{id} and its
	// input_items. Answers to store: false are not kept. They are bounded as items are. 0: off.
	Keep time.Duration `yaml:"keep" default:"0s" range:"0|1m..168h"`
}
