package attack

import (
	"crypto/rand"
	"fmt"
)

// onOperator are rounds against the operators' API. The token is an owner's, so that only
// the rule that a round attacks can refuse it.
var onOperator = []Round{
	{Name: "operator_names", What: "an owner's reads under names of other sites in Host, as after DNS rebinding", Rate: 50,
		operator: true, needs: (*Options).tokened, do: func(a *attacker) []byte {
			port := a.operator.Port()
			names := []string{"evil.example", "evil.example:" + port, "localhost.evil.example", a.base.Hostname() + ".evil.example", "169.254.169.254"}
			return a.operatorCall("GET", "/accounts", "", names[a.next()%len(names)], a.o.OperatorToken)
		}},
	{Name: "operator_users", What: "reads without a token, with headers of proxies and of single sign-on", Rate: 50,
		operator: true, needs: (*Options).tokened, do: func(a *attacker) []byte {
			headers := []string{"X-Forwarded-User: owner", "X-Forwarded-User: owner\r\nX-Farebox-Proxy-Secret: " + rand.Text(),
				"X-Forwarded-For: 127.0.0.1", "X-Remote-User: root", "Forwarded: for=127.0.0.1", "Authorization: Basic cm9vdDpyb290",
				"Authorization: Bearer " + a.o.Attacker}
			return a.operatorCall("GET", "/accounts", "", a.operator.Host, "", headers[a.next()%len(headers)])
		}},
	{Name: "operator_pages", What: "an owner's changes as a page of another site can send them", Rate: 50,
		operator: true, needs: (*Options).tokened, do: func(a *attacker) []byte {
			headers := []string{"Content-Type: text/plain", "Content-Type: application/json",
				"Content-Type: application/json\r\nX-Farebox-Operator: 1\r\nOrigin: https://evil.example",
				"Content-Type: application/json\r\nX-Farebox-Operator: 1\r\nOrigin: null",
				"Content-Type: application/json\r\nX-Farebox-Operator: 1\r\nSec-Fetch-Site: cross-site",
				"Content-Type: application/x-www-form-urlencoded\r\nX-Farebox-Operator: 1"}
			return a.operatorCall("POST", "/accounts", fmt.Sprintf(`{"name":"attack-%s"}`, rand.Text()), a.operator.Host, a.o.OperatorToken,
				headers[a.next()%len(headers)])
		}},
	{Name: "operator_tokens", What: "guessed tokens of operators", Rate: 200, operator: true, needs: (*Options).tokened, do: func(a *attacker) []byte {
		return a.operatorCall("GET", "/accounts", "", a.operator.Host, "fbo_"+rand.Text()+rand.Text())
	}},
	{Name: "operator_refs", What: "credits of ever other amounts with one ref at once, of which one may pass", Rate: 100,
		operator: true, needs: (*Options).credited, do: func(a *attacker) []byte {
			return a.operatorCall("POST", "/accounts/"+a.o.OperatorAccount+"/credits", fmt.Sprintf(
				`{"currency":"USD","amount":"0.%09d","ref":"attack-%d"}`, a.next(), a.started.UnixNano()), a.operator.Host, a.o.OperatorToken,
				"Content-Type: application/json\r\nX-Farebox-Operator: 1")
		}},
}

func (o *Options) tokened() string { return o.given(o.Operator != "" && o.OperatorToken != "") }
func (o *Options) credited() string {
	return o.given(o.Operator != "" && o.OperatorToken != "" && o.OperatorAccount != "")
}

// operatorCall is a call of the operators' API as bytes.
func (a *attacker) operatorCall(method, path, body, host, token string, headers ...string) []byte {
	b := fmt.Appendf(nil, "%s %s%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, a.operator.Path, path, host, len(body))
	if token != "" {
		b = append(b, "Authorization: Bearer "+token+"\r\n"...)
	}
	for _, h := range headers {
		b = append(b, h+"\r\n"...)
	}
	return append(append(b, "\r\n"...), body...)
}
