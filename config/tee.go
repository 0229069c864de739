package config

import "time"

// TEE configures the attestation of enclaves and its requirements (interface.md, TEE; addendum
// 15). It applies to models with an Enclave.
type TEE struct {
	// Where data comes from that Intel publishes about processors.
	Collateral Collateral `yaml:"collateral"`
	// States of a platform that count as verified. Revoked never does.
	Accept []string `yaml:"tcb_accept" default:"UpToDate" oneof:"@states" unique:"state"`
	// Evidence of graphics processors. nras: NVIDIA's service judges it where there is some; local: it must be signed
	// by NVIDIA's devices; require: as nras, and there must be some; off: a report with evidence is not verified.
	GPU string `yaml:"gpu" default:"nras" oneof:"nras local require off"`
	// Address of NVIDIA's service. Default: https://nras.attestation.nvidia.com
	NRASURL string `yaml:"nras_url"`
	// Use the two roots below instead of Intel's and NVIDIA's. Attestations then prove nothing and say so.
	AllowTestRoot bool `yaml:"allow_test_root"`
	// PEM file of a test root in place of Intel's.
	IntelRoot string `yaml:"intel_root_file"`
	// PEM file of a test root in place of NVIDIA's.
	NVIDIARoot string `yaml:"nvidia_root_file"`
	// How often the gateway attests each enclave by itself.
	Recheck time.Duration `yaml:"recheck" default:"10m" range:"10s..24h"`
	// Requests go only to enclaves that are verified now.
	Enforce *bool `yaml:"enforce" default:"true"`
	// Attestations a minute of one client address; 0: any number.
	PerIP int64 `yaml:"per_ip" default:"10" range:"0..1000000"`
	// Attestations that an enclave is asked for at a time for clients.
	InFlight int `yaml:"in_flight" default:"4" range:"1..1000"`
	// Time for one attestation.
	Timeout time.Duration `yaml:"timeout" default:"30s" range:"1s..5m"`
	// Seal turns of assistants and developers that arrive in the clear in an encrypted chat.
	SealPlainTurns *bool `yaml:"seal_plain_turns" default:"true"`
	// Also attest models whose id does not begin with e2ee-.
	AnyModelID bool `yaml:"any_model_id"`
}

// Collateral says where Intel's data about processors comes from.
type Collateral struct {
	// http, from url; file, from dir.
	Source string `yaml:"source" default:"http" oneof:"http file"`
	// Intel's service or a mirror of it, such as a PCCS. A mirror needs no key. Default:
	// https://api.trustedservices.intel.com
	URL string `yaml:"url"`
	// Revocation list of Intel's root. Default: Intel's address, or the mirror's.
	RootCRLURL string `yaml:"root_crl_url"`
	// Folder of files <fmspc>.json for source: file.
	Dir string `yaml:"dir"`
	// PEM file with the authorities of a mirror.
	CAFile string `yaml:"ca_file"`
}

// Enclave says that a text model runs in enclaves: each of its targets must attest
// itself.
type Enclave struct {
	// Software before the model: dstack, near or aci.
	Kind string `yaml:"kind" default:"dstack" oneof:"dstack near aci"`
	// Clients may encrypt chats to it.
	Encrypted *bool `yaml:"encrypted" default:"true"`
	// Shown to clients as tee_provider, at most 64 characters. Default: none.
	Provider string `yaml:"provider"`
	// The attested unit: model_instance, or aggregator, a gateway before the models, as kind: aci
	// needs it.
	Scope string `yaml:"scope" default:"model_instance" oneof:"model_instance aggregator"`
	// In place of tee.tcb_accept. Default: tee.tcb_accept.
	Accept []string `yaml:"tcb_accept" oneof:"@states" unique:"state"`
	// In place of tee.gpu. Default: tee.gpu.
	GPU string `yaml:"gpu" oneof:"|nras local require off"`
	// true: a report without evidence of graphics processors is not verified. Default: true where the report or
	// earlier evidence shows such processors, unless gpu: nras or local is set here.
	HasGPU *bool `yaml:"has_gpu"`
	// Measurements that the enclave must have, each one of a list in hexadecimal digits: mrtd, rtmr0 to rtmr3,
	// mr_config_id, compose_hash. Default: none.
	Pin map[string][]string `yaml:"pin"`
}
