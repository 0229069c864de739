package audio

import "farebox/routes"

// transcriptionRows are the endpoints of transcriptions.
func transcriptionRows(*Capability) []routes.Row { return nil }
