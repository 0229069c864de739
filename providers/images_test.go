package providers

import "testing"

// The WebP encoder is prepared where it will be needed, and nowhere else.
func TestWhoMustMakeWebP(t *testing.T) {
	const ups = `
upstreams:
  - { name: openai, base_url: "http://127.0.0.1:1/v1" }
  - { name: native, dialect: native, base_url: "http://127.0.0.1:1/api/v1" }
  - { name: sdapi, dialect: sdapi, base_url: "http://127.0.0.1:1" }
  - { name: stability, dialect: stability, base_url: "http://127.0.0.1:1/v2beta", key: k }
models:
`
	for text, want := range map[string]bool{
		"{ id: m, context_tokens: 8000, price: free, targets: [{ upstream: openai }] }":                            false,
		"{ id: m, type: image, price: free, targets: [{ upstream: openai }] }":                                     false,
		"{ id: m, type: image, price: free, targets: [{ upstream: native }] }":                                     false,
		"{ id: m, type: image, price: free, targets: [{ upstream: openai, options: { format: fixed } }] }":         true,
		"{ id: m, type: image, price: free, targets: [{ upstream: sdapi }] }":                                      true,
		"{ id: m, type: inpaint, price: free, targets: [{ upstream: native }, { upstream: sdapi, priority: 1 }] }": true,
		"{ id: m, type: upscale, price: free, targets: [{ upstream: sdapi }] }":                                    false,
		"{ id: m, type: image, price: free, targets: [{ upstream: stability, model: ultra }] }":                    false,
		"{ id: m, type: image, price: free, targets: [{ upstream: stability, model: sd3.5-large }] }":              true,
	} {
		if got := catalogOf(t, ups+"  - "+text+"\n", nil, today).MakesWebP(); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
