// Package azure speaks to Azure OpenAI: bodies and answers are OpenAI's own, so
// that they go out and come back untouched. The differences are the address of a model,
// which is that of its deployment where the API has a dated version,
// and the form of errors.
//
// The endpoint adds the credential (package credential, or the key in the
// header api-key), and the version of the API is in its query.
//
// Out of scope: anything that OpenAI's dialect does too.
package azure

import (
	"strings"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/openai"
	"farebox/proxy"
)

// Dialect implements dialect.Dialect.
type Dialect struct{ openai.Dialect }

var _ dialect.Dialect = Dialect{}

// Request is OpenAI's, to the address of the model's deployment where there is
// one. The config has made sure that its name can be there.
func (d Dialect) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	if err := d.Dialect.Request(r, c, t, s); err != nil || !t.Upstream.Config.Azure.Deployments() {
		return err
	}
	from := len(s.Buf)
	s.Buf = append(append(append(s.Buf, '/'), t.Name...), r.Path...)
	r.Path = s.Buf[from:]
	return nil
}

// Error reads an error answer of Azure. A filter's refusal carries a report of
// its findings, which are the operator's; and texts about deployments, resources
// and versions of the API are about the operator's side.
func (d Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	switch code := dialect.ErrorCode(body); {
	case status == 400 && filtered[code]:
		return filterRefusal(retryAfter, body)
	case misplaced[code]:
		status = 404
	case code == codeSubscription:
		status = 401
	case ofOperator(dialect.ErrorMessage(body)):
		body = nil // told by its status alone
	}
	return d.Dialect.Error(status, retryAfter, body)
}

// filtered are the codes of refusals by the content filter.
var filtered = map[string]bool{"content_filter": true, "ResponsibleAIPolicyViolation": true}

// misplaced are codes of a deployment, resource or version that does not exist,
// with whatever status. No body of a request can cause them.
var misplaced = map[string]bool{"DeploymentNotFound": true, "ResourceNotFound": true, "OperationNotSupported": true,
	"UnsupportedApiVersion": true}

// codeSubscription is that of a wrong key, which Azure's front sends as a number.
const codeSubscription = "401"

// ofOperator says that a text speaks of the operator's resources at Azure.
func ofOperator(text string) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"deployment", "resource", "subscription", "tenant", "endpoint", "azure."} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

const textFiltered = "The request was refused by the model's content filter; please change it."

// filterRefusal is a content violation, in our own words: Azure's text has a
// link and the name of its service.
func filterRefusal(retryAfter time.Duration, body []byte) dialect.Failure {
	f := dialect.FailureOf(400, retryAfter, body)
	f.Status, f.Code, f.Type = 422, "CONTENT_POLICY_VIOLATION", "invalid_request_error"
	f.Message, f.Param = textFiltered, ""
	return f
}
