package config

import "time"

// TEE is what is asked of enclaves, and how they are looked at (interface.md, TEE;
// addendum 15). It holds for models that have an Enclave.
type TEE struct {
	Collateral Collateral `yaml:"collateral"`
	// Accept are the states of a platform that count as verified: UpToDate (default)
	// and others that Intel names; Revoked never does. It is published with each verdict.
	Accept []string `yaml:"tcb_accept"`
	// GPU says what is asked of evidence of graphics processors: nras (default: NVIDIA's
	// service judges it, too), local, require (as nras, and there must be some), off.
	GPU     string `yaml:"gpu"`
	NRASURL string `yaml:"nras_url"`
	// AllowTestRoot takes the roots below instead of Intel's and NVIDIA's: every
	// attestation says so then, and proves nothing.
	AllowTestRoot bool   `yaml:"allow_test_root"`
	IntelRoot     string `yaml:"intel_root_file"`
	NVIDIARoot    string `yaml:"nvidia_root_file"`
	// Recheck is how often each enclave is attested for our own sake; default 10m.
	// Enforce keeps requests from one that is not verified now; default true.
	Recheck time.Duration `yaml:"recheck"`
	Enforce *bool         `yaml:"enforce"`
	// PerIP is how many attestations an address may ask for a minute; default 10.
	// InFlight is how many an upstream is asked for at a time on behalf of clients, and
	// Timeout how long one may take; default 4 and 30s.
	PerIP    int64         `yaml:"per_ip"`
	InFlight int           `yaml:"in_flight"`
	Timeout  time.Duration `yaml:"timeout"`
	// SealPlainTurns seals turns of assistants and developers that come in the clear in
	// an encrypted chat, as enclaves want all of them; default true.
	SealPlainTurns *bool `yaml:"seal_plain_turns"`
	// AnyModelID lets models be attested and encrypted to whose id does not begin with
	// e2ee-; default false.
	AnyModelID bool `yaml:"any_model_id"`
}

// Collateral is where that comes from which Intel publishes of processors.
type Collateral struct {
	Source     string `yaml:"source"` // http (default) or file
	URL        string `yaml:"url"`    // default Intel's service; a mirror of it needs no key
	RootCRLURL string `yaml:"root_crl_url"`
	Dir        string `yaml:"dir"` // of files <fmspc>.json
	CAFile     string `yaml:"ca_file"`
}

// Enclave says that a text model runs in enclaves: each of its targets is one, and must
// prove it.
type Enclave struct {
	// Kind is what stands before the model: dstack (default), near or aci.
	Kind string `yaml:"kind"`
	// Encrypted says that chats may be sealed to it (supportsE2EE); default true.
	Encrypted *bool `yaml:"encrypted"`
	// Provider is told to clients as tee_provider.
	Provider string `yaml:"provider"`
	// Scope is what is attested: model_instance (default), or aggregator, a gateway
	// before the models. One that turns from one into the other is not verified.
	Scope string `yaml:"scope"`
	// Accept and GPU, if written, stand in the place of tee.tcb_accept and tee.gpu.
	Accept []string `yaml:"tcb_accept"`
	GPU    string   `yaml:"gpu"`
	// HasGPU says that the enclaves have graphics processors: then reports without evidence
	// of them are not verified. Not written, this is learned: from a report that says so,
	// and from evidence that an enclave gave before; then gpu: nras or local of the model,
	// or false here, take reports without evidence all the same.
	HasGPU *bool `yaml:"has_gpu"`
	// Pin are measurements that it must have, each one of a list, in hexadecimal digits:
	// mrtd, rtmr0 to rtmr3, mr_config_id, compose_hash.
	Pin map[string][]string `yaml:"pin"`
}

func defaultTEE() TEE {
	yes := true
	return TEE{Collateral: Collateral{Source: "http"}, Accept: []string{"UpToDate"}, GPU: "nras", Recheck: 10 * time.Minute,
		Enforce: &yes, PerIP: 10, InFlight: 4, Timeout: 30 * time.Second, SealPlainTurns: &yes}
}

func (e *Enclave) defaults() {
	yes := true
	e.Kind, e.Encrypted, e.Scope = "dstack", &yes, "model_instance"
}
