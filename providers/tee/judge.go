package tee

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"farebox/providers/tee/gpu"
	"farebox/providers/tee/seal"
	"farebox/providers/tee/tdx"
	"farebox/providers/wallet"
	"farebox/proxy/scan"
)

// Requirements for the evidence of graphics processors.
const (
	GPURemote  = "nras"    // NVIDIA's service judges it, too, where there is some
	GPULocal   = "local"   // it must be signed by NVIDIA's devices, where there is some
	GPURequire = "require" // there must be some, and NVIDIA's service judges it, too
	GPUOff     = "off"     // it is not checked; then a report that has some is not verified
)

// The parts that are attested.
const (
	ModelInstance = "model_instance" // where the model runs
	Aggregator    = "aggregator"     // a gateway before the models
)

// Policy is the set of requirements for a model's enclave.
type Policy struct {
	TDX     tdx.Policy
	Devices gpu.Root
	GPU     string
	// HasGPU says that the enclave has graphics processors: by the config, or since it has
	// proven so before. A report without evidence of them is not verified then.
	HasGPU bool
	// BareGPU says that the config takes reports without evidence, even if something else
	// shows that there are graphics processors.
	BareGPU bool
	Scope   string // ModelInstance, Aggregator
	Pins    []Pin  // measurements that it must have
}

// needsGPU says that a report must have evidence of graphics processors. shown: the report
// itself says that there are some.
func (p *Policy) needsGPU(shown bool) bool {
	return p.GPU == GPURequire || p.GPU != GPUOff && !p.BareGPU && (p.HasGPU || shown)
}

// PinNames are the measurements that can be pinned.
var PinNames = []string{"mrtd", "rtmr0", "rtmr1", "rtmr2", "rtmr3", "mr_config_id", "compose_hash"}

// Pin is a measurement, and the values that it may have.
type Pin struct {
	Name   string // of PinNames
	Values [][]byte
}

// Collaterals gives Intel's collateral for a kind of processor.
type Collaterals interface {
	Collateral(ctx context.Context, fmspc [6]byte, ca string) (*tdx.Collateral, error)
}

// Devices judges evidence by a service of NVIDIA's.
type Devices interface {
	Judge(ctx context.Context, payload string, nonce [32]byte, devices int) error
}

// Judge verifies reports.
type Judge struct {
	Collaterals Collaterals
	Remote      Devices
	Now         func() time.Time

	known gpu.Known
}

// maxReport is the largest report that is read.
const maxReport = 4 << 20

var (
	errReport    = errors.New("the report is invalid or ambiguous")
	errHardware  = errors.New("the report has no quote of Intel TDX")
	errNoSigner  = errors.New("the report shows no address of a signer")
	errShownKey  = errors.New("the key of the report is invalid, or does not match its address")
	errReportKey = errors.New("the quote was made for another key")
	errNonce     = errors.New("the quote answers another nonce")
	errNoDevices = errors.New("the report has no evidence of graphics processors, which this model has")
	errCompose   = errors.New("the composition of the report is invalid or ambiguous")
	errBroken    = errors.New("the report cannot be judged")
	errScope     = errors.New("the report attests a gateway in front of models, not the enclave of the model")
	errOffDevice = errors.New("the report has evidence of graphics processors, which the policy ignores")
)

// Verify judges a report, one object of JSON, that was asked for with a nonce.
func (j *Judge) Verify(ctx context.Context, report []byte, nonce [32]byte, p *Policy) (v *Verification) {
	began := time.Now()
	v = &Verification{At: j.Now(), policy: p, replayed: "unavailable", composed: "unavailable"}
	defer func() {
		if recover() != nil { // its report made our code panic
			v.note(CheckReport, errBroken)
			if v.verdict == nil {
				v.quote = nil
			}
		}
		v.complete()
		v.Took = time.Since(began)
	}()
	var doc scan.Document
	if doc.SkimStrict(report, shape) != nil {
		v.note(CheckHardware, errReport)
		return v
	}
	r := members{report, &doc}
	if !j.quote(ctx, v, r) {
		return v
	}
	v.note(CheckKeyBinding, v.bindKey(r))
	v.note(CheckNonce, v.bindNonce(nonce))
	v.required = p.needsGPU(saysGPU(gjson.ParseBytes(report)))
	j.devices(ctx, v, r.get("nvidia_payload"), nonce)
	v.pins()
	v.log(r)
	switch p.Scope {
	case ModelInstance:
		v.note(CheckScope, ofInstance(gjson.ParseBytes(report)))
	case Aggregator:
		v.skip(CheckScope, "scope: aggregator attests a gateway before the models, not where the model runs")
	default:
		v.skip(CheckScope, "nothing says whether the model or a gateway before it is attested")
	}
	return v
}

// members are the members of a report that decide anything.
type members struct {
	report []byte
	doc    *scan.Document
}

// get is one of them; it does not exist if it is absent in the report.
func (m members) get(name string) (none gjson.Result) {
	f, ok := m.doc.Top(shape.ID(name))
	if !ok {
		return none
	}
	return gjson.ParseBytes(f.Raw(m.report))
}

// quote checks the quote itself.
func (j *Judge) quote(ctx context.Context, v *Verification, r members) bool {
	text := r.get("intel_quote")
	if text.Type != gjson.String || text.Str == "" {
		v.note(CheckHardware, errHardware)
		return false
	}
	q, err := tdx.ParseHex(text.Str)
	if !v.note(CheckQuote, err) {
		return false
	}
	v.quote = q
	var c *tdx.Collateral
	fmspc, ca, err := q.FMSPC(v.policy.TDX.Root, v.At)
	if err == nil {
		c, err = j.Collaterals.Collateral(ctx, fmspc, ca)
	}
	v.verdict = q.Verify(c, &v.policy.TDX, v.At)
	v.Until = v.verdict.Until
	v.Checks = append(v.Checks, v.verdict.Checks...)
	if err != nil && c == nil {
		for i := range v.Checks {
			if errors.Is(v.Checks[i].Err, tdx.ErrNoCollateral) {
				v.Checks[i].Err = err
			}
		}
	}
	return true
}

// ofInstance is an error for the report of a gateway before models. It is the report's own
// claim, which no quote covers: only pins protect against a host that leaves it out.
func ofInstance(r gjson.Result) error {
	for _, path := range []string{"serving", "service_capabilities.serving", "attestation.serving", "info.serving"} {
		if r.Get(path).Str == Aggregator {
			return errScope
		}
	}
	if strings.HasPrefix(r.Get("api_version").Str, "aci/") || r.Get("workload_keyset_digest").Exists() {
		return errScope
	}
	return nil
}

// bindKey checks that the quote was made for the signer that the report shows, and
// that the key which it shows is the signer's.
func (v *Verification) bindKey(r members) error {
	shown, err := wallet.ParseAddress(r.get("signing_address").Str)
	if err != nil || shown.Family() != wallet.EVM {
		return errNoSigner
	}
	data := &v.quote.Body.ReportData
	v.Address = shown.EVM()
	if !bytes.Equal(data[:20], v.Address[:]) || !bytes.Equal(data[20:32], make([]byte, 12)) {
		return errReportKey
	}
	text, second := r.get("signing_public_key").Str, r.get("signing_key").Str
	if text == "" {
		text = second
	}
	if text == "" {
		return nil // the model has no key to seal to
	}
	k, err := seal.ParseKey(text)
	if err != nil {
		return errShownKey
	}
	sum := wallet.Keccak(k.Bytes()[1:])
	if !bytes.Equal(sum[12:], v.Address[:]) {
		return errShownKey
	}
	if second != "" {
		if other, err := seal.ParseKey(second); err != nil || other.String() != k.String() {
			return errShownKey // clients read one or the other
		}
	}
	v.Key = &k
	return nil
}

func (v *Verification) bindNonce(nonce [32]byte) error {
	if !bytes.Equal(v.quote.Body.ReportData[32:], nonce[:]) {
		return errNonce
	}
	return nil
}

// saysGPU says that a report claims graphics processors. The claim is not covered by the
// quote: a host that hides them hides this, too.
func saysGPU(report gjson.Result) bool {
	for _, path := range []string{"vm_config", "info.vm_config"} {
		c := report.Get(path)
		if c.Type == gjson.String {
			c = gjson.Parse(c.Str) // a text that is JSON again
		}
		if c.Get("num_gpus").Num > 0 {
			return true
		}
	}
	return false
}

// devices checks the evidence of graphics processors as the policy asks.
func (j *Judge) devices(ctx context.Context, v *Verification, payload gjson.Result, nonce [32]byte) {
	if payload.Type != gjson.String || payload.Str == "" {
		switch {
		case payload.Exists() && payload.Type != gjson.Null && payload.Type != gjson.String:
			v.note(CheckDevices, errors.New("the evidence of graphics processors is not a text"))
		case v.required:
			v.note(CheckDevices, errNoDevices)
		default:
			for _, name := range []string{CheckDevices, CheckDeviceNonce, CheckJudged} {
				v.skip(name, "the report has no evidence of graphics processors, and gpu: "+v.policy.GPU+" asks for none")
			}
		}
		return
	}
	p, err := gpu.Read([]byte(payload.Str))
	if err == nil {
		v.devices = len(p.Evidence)
	} else {
		v.devices = 1
	}
	if v.policy.GPU == GPUOff {
		v.note(CheckDevices, errOffDevice)
		return
	}
	if err != nil {
		v.note(CheckDevices, err)
		return
	}
	err = j.known.Check(p, nonce, v.policy.Devices, v.At)
	if errors.Is(err, gpu.ErrNonce) {
		v.note(CheckDeviceNonce, err)
		return
	}
	if !v.note(CheckDevices, err) {
		return
	}
	v.note(CheckDeviceNonce, nil)
	if v.policy.GPU == GPULocal {
		v.skip(CheckJudged, "gpu: local does not ask NVIDIA's service")
		return
	}
	if j.Remote == nil {
		v.note(CheckJudged, errors.New("there is no service that could judge the evidence"))
		return
	}
	err = j.Remote.Judge(ctx, payload.Str, nonce, len(p.Evidence))
	v.judged, v.away = v.note(CheckJudged, err), errors.Is(err, gpu.ErrAway)
}

// measurement is one that can be pinned.
func (v *Verification) measurement(name string) []byte {
	b := &v.quote.Body
	switch name {
	case "mrtd":
		return b.MRTD[:]
	case "rtmr0", "rtmr1", "rtmr2", "rtmr3":
		return b.RTMR[name[4]-'0'][:]
	case "mr_config_id":
		return b.MRConfigID[:]
	case "compose_hash":
		if b.MRConfigID[0] != 1 {
			return nil
		}
		return b.MRConfigID[1:33]
	}
	return nil
}

// pins checks the measurements that are pinned, and names those that are not.
func (v *Verification) pins() {
	var free []string
	for _, name := range PinNames {
		if !slices.ContainsFunc(v.policy.Pins, func(p Pin) bool {
			return p.Name == name || p.Name == "mr_config_id" && name == "compose_hash" // which it has
		}) {
			free = append(free, name)
		}
	}
	if len(v.policy.Pins) == 0 {
		v.skip(CheckPins, "nothing is pinned: any software may run in the enclave")
		return
	}
	v.note(CheckPins, v.pinned())
	if len(free) > 0 {
		v.skip(CheckOtherPins, strings.Join(free, ", ")+" are not pinned")
	}
}

func (v *Verification) pinned() error {
	for _, pin := range v.policy.Pins {
		got, ok := v.measurement(pin.Name), false
		for _, want := range pin.Values {
			ok = ok || len(got) > 0 && bytes.Equal(got, want)
		}
		if !ok {
			return errors.New(pin.Name + " is not one of those that are pinned")
		}
	}
	return nil
}

// log checks the event log and the composition, where the report has them.
func (v *Verification) log(r members) {
	if text := r.get("event_log"); !text.Exists() || text.Type == gjson.Null || text.Raw == `""` || text.Raw == "[]" {
		v.skip(CheckLog, "the report has no event log")
	} else {
		events, err := tdx.ReadEvents([]byte(text.Raw))
		if err == nil {
			err = v.quote.Body.Replay(events)
		}
		v.replayed = "false"
		if v.note(CheckLog, err) {
			v.replayed = "true"
		}
	}
	compose, err := composition(r.get("info").Get("tcb_info"))
	switch {
	case v.quote.Body.MRConfigID == [48]byte{}:
		v.skip(CheckCompose, "the quote names no composition")
		return
	case err == nil && compose.Type != gjson.String:
		v.skip(CheckCompose, "the report shows no composition")
		return
	}
	if err == nil {
		err = v.quote.Body.ComposeOf([]byte(compose.Str))
	}
	v.composed = "false"
	if v.note(CheckCompose, err) {
		v.composed = "true"
	}
}

// composition is the one that a report shows; it does not exist if the report has none.
// tcb_info may be a text that is JSON again.
func composition(info gjson.Result) (compose gjson.Result, err error) {
	if info.Type != gjson.String || info.Str == "" {
		return info.Get("app_compose"), nil
	}
	text := []byte(info.Str)
	var doc scan.Document
	if doc.SkimWhole(text, tcbShape, maxDepth) != nil {
		return compose, errCompose
	}
	if f, ok := doc.Top(0); ok {
		compose = gjson.ParseBytes(f.Raw(text))
	}
	return compose, nil
}

// ParseNonce reads 64 lower-case hexadecimal digits (interface.md, TEE).
func ParseNonce(s string) (nonce [32]byte, ok bool) {
	if len(s) != 64 {
		return nonce, false
	}
	for i := range len(s) {
		if c := s[i]; c-'0' > 9 && c-'a' > 5 {
			return nonce, false
		}
	}
	_, err := hex.Decode(nonce[:], []byte(s))
	return nonce, err == nil
}
