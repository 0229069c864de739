package enclave

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
)

func (e *Enclave) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/attestation/report", e.report)
	m.HandleFunc("GET /v1/signature/{id}", e.signatureOf)
	m.HandleFunc("POST /v1/chat/completions", e.chat)
	m.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"object": "list", "data": []object{{"id": defaultModel, "object": "model"}}})
	})
	m.HandleFunc("GET /pcs/tdx/certification/v4/tcb", e.publish(func(c *Collateral) (string, string, string, string) {
		return "Tcb-Info-Issuer-Chain", c.TCBInfoIssuerChain, "tcbInfo", c.TCBInfo
	}))
	m.HandleFunc("GET /pcs/tdx/certification/v4/qe/identity",
		e.publish(func(c *Collateral) (string, string, string, string) {
			return "Sgx-Enclave-Identity-Issuer-Chain", c.QEIdentityIssuerChain, "enclaveIdentity", c.QEIdentity
		}))
	m.HandleFunc("GET /pcs/sgx/certification/v4/pckcrl", e.lists)
	m.HandleFunc("GET /pcs/sgx/certification/v4/rootcacrl", e.lists)
	m.HandleFunc("GET /nras/.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, e.judge.keys())
	})
	m.HandleFunc("POST /nras/v3/attest/gpu", e.judged)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.calls[r.URL.Path]++
		e.mu.Unlock()
		if e.o.Key != "" && strings.HasPrefix(r.URL.Path, "/v1/") &&
			r.Header.Get("Authorization") != "Bearer "+e.o.Key {
			refuse(w, 401, "invalid_api_key", "a key is needed")
			return
		}
		m.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic("enclave: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

func refuse(w http.ResponseWriter, status int, code, text string) {
	answer(w, status, object{"error": object{"message": text, "type": "invalid_request_error", "code": code}})
}

// report proves where the enclave runs, for a nonce of the caller.
func (e *Enclave) report(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query().Get("nonce")
	raw, err := hex.DecodeString(asked)
	if err != nil || len(raw) != 32 || r.URL.Query().Get("signing_algo") != "ecdsa" {
		refuse(w, 400, "bad_request", "nonce must be 32 bytes in hexadecimal digits, signing_algo ecdsa")
		return
	}
	body, err := e.reported([32]byte(raw))
	if err != nil {
		refuse(w, 500, "internal", err.Error())
		return
	}
	all := []object{}
	for _, other := range e.behind() {
		one, err := other.reported([32]byte(raw))
		if err != nil {
			refuse(w, 500, "internal", err.Error())
			return
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		body["all_attestations"] = all
	}
	answer(w, 200, body)
}

// reported is a report about a nonce.
func (e *Enclave) reported(nonce [32]byte) (object, error) {
	asked, lie := hex.EncodeToString(nonce[:]), e.Lie()
	key, address := e.identity.public(), addressOf(e.identity.public())
	var data [64]byte
	copy(data[:], address)
	proven := nonce
	if lie == StaleNonce {
		rand.Read(proven[:])
	}
	copy(data[32:], proven[:])
	quote, err := e.Quote(data)
	if err != nil {
		return nil, err
	}
	if lie == SwapKey || lie == SwapAddress {
		other, err := newIdentity()
		if err != nil {
			return nil, err
		}
		if lie == SwapKey {
			key = other.public()
		} else {
			address = addressOf(other.public())
		}
	}
	body := object{
		"signing_address": "0x" + hex.EncodeToString(address), "signing_algo": "ecdsa",
		"signing_public_key": hex.EncodeToString(key[1:]), "request_nonce": asked, "intel_quote": hex.EncodeToString(quote),
		"event_log": e.shown(lie), "vm_config": e.o.VMConfig,
		"info": object{"app_name": "farebox-test", "tcb_info": object{"app_compose": e.compose}},
	}
	if len(e.devices.each) > 0 && lie != NoGPU {
		if lie == GPUNonce {
			rand.Read(nonce[:])
		}
		payload, err := e.devices.payload(nonce, lie == GPUFail)
		if err != nil {
			return nil, err
		}
		body["nvidia_payload"] = payload
	}
	return body, nil
}

// shown is the event log, as a text that is JSON again.
func (e *Enclave) shown(lie string) string {
	log := e.log
	if lie == WrongLog {
		log = log[1:]
	}
	raw, err := json.Marshal(log)
	if err != nil {
		panic("enclave: " + err.Error())
	}
	return string(raw)
}

func (e *Enclave) signatureOf(w http.ResponseWriter, r *http.Request) {
	for _, other := range e.behind() {
		if _, ok := other.answerOf(r.PathValue("id")); ok {
			other.signatureOf(w, r)
			return
		}
	}
	s, ok := e.answerOf(r.PathValue("id"))
	if !ok {
		refuse(w, 404, "not_found", "Chat id not found or expired")
		return
	}
	answer(w, 200, object{"text": s.text, "signature": s.signature,
		"signing_address": "0x" + hex.EncodeToString(addressOf(e.identity.public())), "signing_algo": "ecdsa"})
}

func (e *Enclave) answerOf(id string) (s signed, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok = e.answers[id]
	return s, ok
}

// publish answers as Intel's service does: the signed bytes as they are, the chain in a
// header.
func (e *Enclave) publish(part func(*Collateral) (header, chain, member, body string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := e.collateralFor(w)
		if !ok {
			return
		}
		if f := r.URL.Query().Get("fmspc"); f != "" && !strings.EqualFold(f, e.FMSPC()) {
			http.Error(w, "unknown FMSPC", 404)
			return
		}
		header, chain, member, body := part(c)
		signature := c.TCBInfoSignature
		if member == "enclaveIdentity" {
			signature = c.QEIdentitySignature
		}
		w.Header().Set(header, url.QueryEscape(chain))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"`+member+`":`+body+`,"signature":"`+signature+`"}`)
	}
}

func (e *Enclave) collateralFor(w http.ResponseWriter) (*Collateral, bool) {
	e.mu.Lock()
	away := e.away
	e.mu.Unlock()
	if away {
		http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		return nil, false
	}
	c, err := e.machine.collateral(e.published())
	if err != nil {
		http.Error(w, err.Error(), 500)
		return nil, false
	}
	return c, true
}

func (e *Enclave) lists(w http.ResponseWriter, r *http.Request) {
	c, ok := e.collateralFor(w)
	if !ok {
		return
	}
	list := c.PCKCRL
	if strings.HasSuffix(r.URL.Path, "rootcacrl") {
		list = c.RootCACRL
	} else {
		w.Header().Set("Sgx-Pck-Crl-Issuer-Chain", url.QueryEscape(c.PCKCRLIssuerChain))
	}
	w.Header().Set("Content-Type", "application/pkix-crl")
	_, _ = w.Write(unhex(list))
}

func (e *Enclave) judged(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		refuse(w, 400, "bad_request", "the body broke off")
		return
	}
	v, err := e.judge.verdict(raw, e.o.JudgeLie, e.o.Now())
	if err != nil {
		refuse(w, 400, "bad_request", err.Error())
		return
	}
	answer(w, 200, v)
}
