package spec

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/xuri/excelize/v2"

	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/enclave"
	"farebox/bench/upstream/film"
	"farebox/bench/upstream/sound"
)

func (w *world) signIn(name string, words []string) (string, error) {
	p := w.payer(name)
	s := chain.SignIn{Domain: "shop.test", URI: site + "/api/v1"}
	change := func(map[string]any) {}
	for _, word := range words {
		switch word {
		case "old":
			s.IssuedAt = time.Now().Add(-6 * time.Minute)
		case "future":
			s.IssuedAt = time.Now().Add(2 * time.Minute)
		case "over":
			s.IssuedAt, s.Expires = time.Now().Add(-time.Minute), time.Now().Add(-time.Second)
		case "later":
			s.NotBefore = time.Now().Add(5 * time.Minute)
		case "domain":
			s.Domain = "evil.test"
		case "version":
			s.Version = "2"
		case "chain":
			s.ChainID = "1"
			change = func(m map[string]any) { m["chainId"] = 1 }
		case "mixed":
			s.ChainID = "1"
			change = func(m map[string]any) { m["chainId"] = 8453 }
		case "expiring":
			s.Expires = time.Now().Add(5 * time.Minute)
		case "number":
			change = func(m map[string]any) { m["chainId"] = 8453 }
		case "word":
			change = func(m map[string]any) { m["chainId"] = "8453" }
		case "lower":
			change = func(m map[string]any) { m["address"] = p.Address }
		case "stamp":
			change = func(m map[string]any) { m["timestamp"] = time.Now().UnixMilli() }
		case "stale":
			change = func(m map[string]any) { m["timestamp"] = time.Now().Add(-time.Minute).UnixMilli() }
		case "unsigned":
			change = func(m map[string]any) {
				m["signature"] = w.payer("forger").SignInMembers(chain.SignIn{Domain: "shop.test", URI: site})["signature"]
			}
		case "address":
			change = func(m map[string]any) { m["address"] = chain.Checksummed(w.payer("forger").Address) }
		case "nowallet":
			change = func(m map[string]any) { m["address"] = "0x12" }
		case "badchain":
			change = func(m map[string]any) { m["chainId"] = "base!" }
		case "nomessage":
			change = func(m map[string]any) { m["message"] = "hello" }
		case "fields":
			change = func(m map[string]any) {
				text := m["message"].(string)
				line := func(name string) string {
					_, rest, _ := strings.Cut(text, "\n"+name+": ")
					value, _, _ := strings.Cut(rest, "\n")
					return value
				}
				delete(m, "message")
				m["domain"], m["uri"], m["version"], m["nonce"], m["issuedAt"] = "shop.test", line("URI"), "1", line("Nonce"), line("Issued At")
				m["type"] = "eip191"
			}
		case "nonce":
			s.Nonce = "abc"
		case "statement":
			s.Statement = "Sign in to Svc"
		case "bare":
			s.ChainID = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
			change = func(m map[string]any) { m["chainId"] = "solana:" + s.ChainID }
		default:
			return "", errors.New("a sign-in cannot be " + word)
		}
	}
	m := p.SignInMembers(s)
	change(m)
	return chain.Header(m), nil
}

// payment is a payer's signed payment: NAME, USD and words that change it.
func (w *world) payment(arg []string) (string, error) {
	p := w.payer(arg[0])
	usd, err := strconv.ParseFloat(arg[1], 64)
	if err != nil {
		return "", err
	}
	units := int64(usd * million)
	evm := w.evm
	to, until := payEVM, time.Now().Add(5*time.Minute)
	version, scheme, network, asset := 2, "exact", "eip155:8453", chain.USDC
	flat, from, value := false, "", ""
	for _, word := range arg[2:] {
		switch word {
		case "expired":
			until = time.Now().Add(-time.Minute)
		case "receiver":
			to = "0x" + strings.Repeat("2", 40)
		case "scheme":
			scheme = "upto"
		case "network":
			network = "eip155:1"
		case "base":
			network = "base"
		case "caip":
			network = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
		case "token":
			asset = "0x" + strings.Repeat("3", 40)
			evm = chain.NewEVM(chain.EVMOptions{Asset: asset})
		case "us":
			from = payEVM
		case "fraction":
			value = "5000000.5"
		case "flat":
			flat = true
		default:
			return "", errors.New("a payment cannot be " + word)
		}
	}
	accepted := map[string]any{"scheme": scheme, "network": network, "amount": "5000000", "asset": asset, "payTo": payEVM,
		"maxTimeoutSeconds": 300, "extra": map[string]any{"name": "USD Coin", "version": "2"}}
	var payload map[string]any
	if p.IsSolana() {
		if network == "eip155:8453" {
			network = "solana"
		}
		accepted["network"], accepted["asset"], accepted["payTo"], accepted["extra"] = network, chain.SolanaUSDC, paySVM, map[string]any{}
		payload = chain.SolanaPayload(p.Transaction(chain.Order{FeePayer: w.facilitator.FeePayer(), PayTo: paySVM, Mint: chain.SolanaUSDC,
			Units: units, Blockhash: w.solana.Blockhash()}))
	} else {
		a := p.Authorization(to, units, until)
		payload = chain.EVMPayload(a, p.SignAuthorization(evm, a))
		said := payload["authorization"].(map[string]any)
		if from != "" {
			said["from"] = from
		}
		if value != "" {
			said["value"] = value
		}
	}
	whole := map[string]any{"x402Version": version, "accepted": accepted, "payload": payload}
	if flat {
		whole = map[string]any{"x402Version": version, "scheme": scheme, "network": network, "payload": payload}
	}
	text, err := json.Marshal(whole)
	return base64.StdEncoding.EncodeToString(text), err
}

// encrypted is the request of a client of encrypted chats.
func (w *world) encrypted(arg []string) (string, error) {
	var err error
	w.e2ee.once.Do(func() {
		if w.e2ee.client, err = enclave.NewClient(); err != nil {
			return
		}
		for range 600 { // until the enclave is verified
			_, _, body := w.Get("/tee/attestation?model=e2ee-sim", "")
			if w.e2ee.model = gjson.GetBytes(body, "signing_public_key").Str; w.e2ee.model != "" {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	if err != nil {
		return "", err
	}
	switch arg[0] {
	case "public":
		return w.e2ee.client.Public(), nil
	case "model":
		return w.e2ee.model, nil
	}
	return w.e2ee.client.Seal(w.e2ee.model, strings.Join(arg, ":"))
}

// generate makes content: png:64x64, wav:SECONDS, mp3:SECONDS, mp4:SECONDS:HEIGHT, txt:TEXT, zero:BYTES, pdf:TEXT.
func generate(what string) ([]byte, error) {
	kind, arg, _ := strings.Cut(what, ":")
	switch kind {
	case "png":
		var width, height int
		if _, err := fmt.Sscanf(arg, "%dx%d", &width, &height); err != nil {
			return nil, err
		}
		m := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.White, color.Black})
		var b bytes.Buffer
		err := png.Encode(&b, m)
		return b.Bytes(), err
	case "wav", "mp3", "flac", "aac", "opus":
		seconds, err := strconv.ParseFloat(arg, 64)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(sound.New(kind, time.Duration(seconds*float64(time.Second)), sound.Options{}))
	case "mp4", "film": // a film has sound
		var seconds, height int
		if _, err := fmt.Sscanf(arg, "%d:%d", &seconds, &height); err != nil {
			return nil, err
		}
		return film.MP4(film.Film{Length: time.Duration(seconds) * time.Second, Width: 16, Height: height, Sound: kind == "film"}), nil
	case "txt":
		return []byte(arg), nil
	case "zero":
		n, err := strconv.Atoi(arg)
		return make([]byte, n), err
	case "pdf":
		return pdf(arg), nil
	case "docx":
		return pack(map[string]string{"_rels/.rels": fmt.Sprintf(root, "word/document.xml"), "word/document.xml": `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>` +
			arg + `</w:t></w:r></w:p></w:body></w:document>`})
	case "pptx":
		return pack(map[string]string{"_rels/.rels": fmt.Sprintf(root, "ppt/presentation.xml"), "ppt/_rels/presentation.xml.rels": strings.Replace(fmt.Sprintf(root, "slides/slide1.xml"), "officeDocument\"", "slide\"", 1),
			"ppt/presentation.xml": `<p:presentation xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><p:sldIdLst><p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>`,
			"ppt/slides/slide1.xml": `<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>` +
				arg + `</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>`})
	case "xlsx":
		f := excelize.NewFile()
		defer func() { _ = f.Close() }()
		if err := f.SetCellStr("Sheet1", "A1", arg); err != nil {
			return nil, err
		}
		b, err := f.WriteToBuffer()
		if err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
	return nil, fmt.Errorf("%q cannot be made", what)
}

// root leads to the main part of a document.
const root = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" ` +
	`Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="%s"/></Relationships>`

// pack is a document of files of XML.
func pack(files map[string]string) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		part, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(part, files[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// pdf is a page that shows a text.
func pdf(text string) []byte {
	content := "BT /F 24 Tf 50 700 Td (" + text + ") Tj ET"
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	var at []int
	for i, o := range []string{"<</Type /Catalog /Pages 2 0 R>>", "<</Type /Pages /Kids [3 0 R] /Count 1>>",
		"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>>>>",
		fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", len(content), content), "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer <</Size %d /Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}
