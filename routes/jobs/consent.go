package jobs

import (
	"slices"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// confirmations are the members by which a client accepts a provider's terms (addendum 10.1).
var confirmations = []string{"confirmed_terms_and_privacy", "confirmed_legal_right",
	"confirmed_screening_acknowledged"}

// agreed says that the body agrees to the terms of a provider.
func (f *videoForm) agreed(provider string) bool {
	field := f.Member(-1, videoConsents)
	if field == nil {
		return false
	}
	agreed := false
	gjson.Parse(routes.ViewString(field.Raw(f.Body))).ForEach(func(name, flags gjson.Result) bool {
		if name.Str != provider {
			return true
		}
		agreed = flags.IsObject() && !slices.ContainsFunc(confirmations, func(flag string) bool {
			return flags.Get(flag).Type != gjson.True
		})
		return false
	})
	return agreed
}

// consented are the providers of the model whose terms the body agrees to.
func (f *videoForm) consented() (names []string) {
	for _, c := range f.model.Consents {
		if f.agreed(c.Provider) {
			names = append(names, c.Provider)
		}
	}
	return names
}

// missingConsent is the first consent that this job needs and does not have; nil: none.
func (f *videoForm) missingConsent() *config.Consent {
	for i := range f.model.Consents {
		c := &f.model.Consents[i]
		asked := len(c.FaceMediaRoles) == 0 || slices.ContainsFunc(c.FaceMediaRoles, func(role string) bool {
			return f.has(videoShape.ID(role))
		})
		if asked && !f.agreed(c.Provider) {
			return c
		}
	}
	return nil
}

// version is that of the terms of a provider.
func version(of *config.Video, provider string) string {
	for _, c := range of.Consents {
		if c.Provider == provider {
			return c.Version
		}
	}
	return ""
}

// needConsent answers with the policy to agree to (addendum 3.4). Nothing was sold.
func needConsent(c *routes.Call, missing *config.Consent) *routes.Error {
	b := []byte(`{"error":{"code":"needs_consent","message":`)
	b = jsontext.AppendString(b, "The provider of model "+c.Model.ID+" asks for your consent: read consent.policy_text, "+
		"then send consents."+missing.Provider+" with confirmed_terms_and_privacy, confirmed_legal_right and "+
		"confirmed_screening_acknowledged as true.")
	b = jsontext.AppendString(append(b, `},"consent_flow":`...), missing.Provider)
	b = append(b, `,"face_media_roles":[`...)
	for _, role := range missing.FaceMediaRoles {
		b = jsontext.AppendString(jsontext.Comma(b), role)
	}
	b = jsontext.AppendString(append(b, `],"consent":{"consent_version":`...), missing.Version)
	b = jsontext.Object(b).Text("policy_text", missing.PolicyText)
	b = jsontext.AppendString(append(b, `},"docs_url":`...), missing.DocsURL)
	c.Ctx.Response.SetStatusCode(409)
	return c.WriteJSON(append(b, '}'))
}
