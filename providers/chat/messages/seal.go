package messages

import (
	"encoding/base64"

	"farebox/providers/chat/dialect"
)

// Seal begins the signatures of thoughts that are not Anthropic's own: the rest is
// the entry of reasoning_details, which its maker wants back as it was.
const Seal = "fbx1."

// SearchID begins the ids of searches that this service did for an answer.
const SearchID = "srvtoolu_fbx"

// maxSealed bounds the size of an opened seal.
const maxSealed = 1 << 20

// seal appends an entry of reasoning_details as a signature.
func seal(dst, entry []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, Seal...), entry)
}

// unseal takes the entry out. It goes into a body of ours, and comes from a client.
func unseal(sealed []byte) (entry []byte, ok bool) {
	if len(sealed) > maxSealed {
		return nil, false
	}
	entry, err := base64.RawURLEncoding.AppendDecode(nil, sealed[len(Seal):])
	if err != nil {
		return nil, false
	}
	return dialect.AppendThought(nil, entry)
}
